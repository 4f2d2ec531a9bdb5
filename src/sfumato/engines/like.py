"""Patterns of LIKE, taken apart so that no engine ever tries one way after another.

Between two percent signs the leftmost place of a piece is always good enough, so pieces are located one after
the other. The first and the last piece stand at the ends of the text and are compared there only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_WILDCARDS = 32
"""The largest number of % and _ in one pattern."""

Piece = tuple[str | None, ...]
"""Characters that stand side by side; None is any one character."""


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern as pieces. Without a `last` piece the first is the whole text."""

    first: Piece
    middle: tuple[tuple[int, Piece], ...] = ()
    """Pieces to locate in turn, each after skipping so many characters; they begin and end with a letter."""
    last: Piece | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it says the same without an escape: it has no _, and no letter that is % or _."""
        pieces = [self.first, *(piece for _, piece in self.middle), self.last or ()]
        skips = any(skipped for skipped, _ in self.middle)
        return not skips and all(letter not in (None, "%", "_") for piece in pieces for letter in piece)

    @property
    def letters(self) -> str:
        """Return all letters that stand for themselves, in their order."""
        return self.write("", "", str)

    def write(self, any_run: str, any_one: str, escape: Callable[[str], str]) -> str:
        """Return the pattern in other signs; `escape` writes one letter that stands for itself."""

        def spell(piece: Piece) -> str:
            return "".join(any_one if letter is None else escape(letter) for letter in piece)

        middle = [any_one * skipped + spell(piece) for skipped, piece in self.middle]
        last = [] if self.last is None else [spell(self.last)]
        return any_run.join([spell(self.first), *middle, *last])

    def matches(self, text: str) -> bool:
        """Return whether a text matches."""
        if self.last is None:
            return len(text) == len(self.first) and _stands_at(text, 0, self.first)
        start, end = len(self.first), len(text) - len(self.last)
        if start > end or not (_stands_at(text, 0, self.first) and _stands_at(text, end, self.last)):
            return False
        for skipped, piece in self.middle:
            places = range(start + skipped, end - len(piece) + 1)
            found = next((place for place in places if _stands_at(text, place, piece)), None)
            if found is None:
                return False
            start = found + len(piece)
        return True


@lru_cache(maxsize=256)
def parse_like(pattern: str) -> LikePattern:
    """Return a pattern as pieces: % is any run of characters, _ is one, a backslash makes the next itself."""
    first, *others = _split_pieces(pattern)
    if not others:
        return LikePattern(first)
    # %_ and _% mean the same, so _ at the ends of a piece moves on as a number of characters to skip.
    middle: list[tuple[int, Piece]] = []
    skipped = 0
    for piece in others[:-1]:
        letters = [place for place, letter in enumerate(piece) if letter is not None]
        if not letters:
            skipped += len(piece)
            continue
        middle.append((skipped + letters[0], piece[letters[0] : letters[-1] + 1]))
        skipped = len(piece) - 1 - letters[-1]
    return LikePattern(first, tuple(middle), (None,) * skipped + others[-1])


def write_piece(piece: Piece) -> str:
    """Return a piece as LIKE takes it, where a backslash is the escape."""
    return LikePattern(piece).write("%", "_", escape_letter)


def escape_letter(letter: str) -> str:
    """Return a letter as LIKE takes it for itself, where a backslash is the escape."""
    return f"\\{letter}" if letter in "%_\\" else letter


def count_wildcards(pattern: str) -> int:
    """Return how many % and _ of a pattern stand for other characters."""
    pieces = _split_pieces(pattern)
    return len(pieces) - 1 + sum(letter is None for piece in pieces for letter in piece)


def list_runs(piece: Piece) -> list[tuple[int, str]]:
    """Return the runs of letters in a piece, each with its place there."""
    runs: list[tuple[int, str]] = []
    for place, letter in enumerate(piece):
        if letter is None:
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == place:
            runs[-1] = runs[-1][0], runs[-1][1] + letter
        else:
            runs.append((place, letter))
    return runs


def _split_pieces(pattern: str) -> list[Piece]:
    pieces: list[list[str | None]] = [[]]
    letters = iter(pattern)
    for letter in letters:
        if letter == "%":
            pieces.append([])
        elif letter == "\\":
            pieces[-1].append(next(letters, "\\"))  # at the end of a pattern it is itself
        else:
            pieces[-1].append(None if letter == "_" else letter)
    return [tuple(piece) for piece in pieces]


def _stands_at(text: str, place: int, piece: Piece) -> bool:
    return all(text.startswith(run, place + at) for at, run in list_runs(piece))
