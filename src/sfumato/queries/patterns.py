"""Regular expressions in a closed form: each becomes a few patterns of LIKE, of which one must match.

LIKE is matched without going back, on every engine, at a cost that is known beforehand. So a regular
expression may choose between texts, list characters, and repeat them a bounded number of times; only any
character can be repeated without end. `.` is any character, also the end of a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PATTERNS = 64
"""The largest number of patterns that a regular expression may stand for. Each is counted as a LIKE."""
_MOST_TIMES = 16
_MOST_CHARACTERS, _MOST_DEPTH = 2000, 30
"""Limits of one pattern and of groups within groups: what is read here is read before anything is charged."""
_ANY, _RUN, _START, _END = "any", "run", "start", "end"
"""Parts of a pattern beside single characters: their names are longer than one."""
_CLASSES = {
    "d": digits,
    "s": " \t\n\r\f",
    "w": ascii_lowercase + ascii_uppercase + digits + "_",
}
_PLAIN = set("\\.^$|?*+()[]{}-/'\"# &~:,;<>=!@%_")

Parts = tuple[str, ...]
"""One way to match: characters and the parts above, in their order."""


def expand_expression(text: str, *, whole: bool) -> list[str]:
    """Return patterns of LIKE of which one matches where the regular expression does.

    It must match the `whole` text, or else any stretch of it.
    """
    if len(text) > _MOST_CHARACTERS:
        raise _refuse(f"more than {_MOST_CHARACTERS} characters")
    reader = _Reader(text)
    ways = reader.read_alternatives()
    if not reader.is_done:
        raise _refuse(f"'{reader.rest}'")
    return list(dict.fromkeys(_write_pattern(way, whole=whole) for way in ways))


def _write_pattern(way: Parts, *, whole: bool) -> str:
    start, end = way[:1] == (_START,), way[-1:] == (_END,)
    inner = way[int(start) : len(way) - int(end and len(way) > int(start))]
    if _START in inner or _END in inner:
        raise _refuse("^ or $ inside")
    parts = [] if whole or start else [_RUN]
    parts += [*inner, *([] if whole or end else [_RUN])]
    written = {_ANY: "_", _RUN: "%"}
    kept = [part for at, part in enumerate(parts) if part != _RUN or parts[at - 1 : at] != [_RUN]]
    return "".join(written.get(part) or (f"\\{part}" if part in "%_\\" else part) for part in kept)


@dataclass
class _Reader:
    """Reads a regular expression from left to right, as all the ways to match it."""

    text: str
    at: int = 0
    depth: int = 0

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.text)

    @property
    def rest(self) -> str:
        return self.text[self.at : self.at + 10]

    def take(self, *wanted: str) -> str:
        """Return the first of these texts that comes next, and go behind it; nothing if none does."""
        for each in wanted:
            if self.text.startswith(each, self.at):
                self.at += len(each)
                return each
        return ""

    def read_alternatives(self) -> list[Parts]:
        ways = self._read_sequence()
        while self.take("|"):
            ways = _limit([*ways, *self._read_sequence()])
        return ways

    def _read_sequence(self) -> list[Parts]:
        ways: list[Parts] = [()]
        while not self.is_done and self.text[self.at] not in "|)":
            ways = _join([ways, self._read_repeated()])
        return ways

    def _read_repeated(self) -> list[Parts]:
        part = self._read_part()
        sign = self.take("*", "+", "?", "{")
        if not sign:
            return part
        if sign == "{":
            fewest, most = self._read_times()
        else:
            fewest, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        self.take("?")  # whether few or many are tried first changes no answer
        if part in ([(_START,)], [(_END,)]):
            raise _refuse("a repeated ^ or $")
        if most is None:
            if part != [(_ANY,)]:
                raise _refuse("a repetition without end, other than .* and .+")
            return [((_ANY,) * fewest) + (_RUN,)]
        return _limit([way for times in range(fewest, most + 1) for way in _join([part] * times)])

    def _read_times(self) -> tuple[int, int | None]:
        inside, closed, _ = self.text[self.at :].partition("}")
        fewest, comma, most = inside.partition(",")
        known = all(each.isdecimal() and len(each) <= 2 for each in (fewest, most) if each) and bool(fewest)
        if not closed or not known:
            raise _refuse("{…}")
        self.at += len(inside) + 1
        ends = int(fewest), int(most) if most else None if comma else int(fewest)
        if ends[0] > _MOST_TIMES or (ends[1] is not None and not ends[0] <= ends[1] <= _MOST_TIMES):
            raise _refuse(f"more than {_MOST_TIMES} repetitions")
        return ends

    def _read_part(self) -> list[Parts]:
        letter = self.text[self.at]
        self.at += 1
        match letter:
            case ".":
                return [(_ANY,)]
            case "^":
                return [(_START,)]
            case "$":
                return [(_END,)]
            case "(":
                return self._read_group()
            case "[":
                return self._read_class()
            case "\\":
                return self._read_escape()
            case "*" | "+" | "?" | "{":
                raise _refuse(f"'{letter}' without something to repeat")
        return [(letter,)]

    def _read_group(self) -> list[Parts]:
        if not self.take("?:") and self.take("?"):
            raise _refuse("(?…)")
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise _refuse(f"more than {_MOST_DEPTH} groups within each other")
        ways = self.read_alternatives()
        if not self.take(")"):
            raise _refuse("( without )")
        self.depth -= 1
        return ways

    def _read_class(self) -> list[Parts]:
        inside, closed, _ = self.text[self.at :].partition("]")
        if not closed or not inside or inside[0] == "^" or "\\" in inside or "[" in inside:
            raise _refuse("[^…], or a class with \\ or [ in it")
        self.at += len(inside) + 1
        return [(letter,) for letter in _list_letters(inside)]

    def _read_escape(self) -> list[Parts]:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter in _CLASSES:
            return [(each,) for each in _CLASSES[letter]]
        if letter in _PLAIN:
            return [(letter,)]
        raise _refuse(f"\\{letter}")


def _list_letters(inside: str) -> list[str]:
    letters: list[str] = []
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = ord(inside[at]), ord(inside[at + 2])
            if not first <= last < first + MOST_PATTERNS:
                raise _refuse(f"[{inside[at : at + 3]}]")
            letters += map(chr, range(first, last + 1))
            at += 3
        else:
            letters.append(inside[at])
            at += 1
    return list(dict.fromkeys(letters))


def _join(parts: Sequence[list[Parts]]) -> list[Parts]:
    """Return every way of one part followed by every way of the next."""
    ways: list[Parts] = [()]
    for part in parts:
        if len(ways) * len(part) > MOST_PATTERNS:
            raise _refuse(f"more than {MOST_PATTERNS} texts")
        if _longest(ways) + _longest(part) > _MOST_CHARACTERS:
            raise _refuse(f"a text of more than {_MOST_CHARACTERS} characters")
        ways = [(*one, *other) for one, other in product(ways, part)]
    return ways


def _longest(ways: list[Parts]) -> int:
    return max(map(len, ways), default=0)


def _limit(ways: list[Parts]) -> list[Parts]:
    if len(ways) > MOST_PATTERNS:
        raise _refuse(f"more than {MOST_PATTERNS} texts")
    return ways


def _refuse(what: str) -> PolicyError:
    return PolicyError(
        "SF-Q159",
        "This regular expression is not supported.",
        got=what,
        known=f"texts, |, (…), [abc], ., .*, ^, $, ? and {{1,3}}, at most {MOST_PATTERNS} texts in all",
        try_="note LIKE '%late%' OR note LIKE '%broken%'",
    )
