"""LIKE as regular expressions of one choice at most: Java's go back, and with several could take hours.

Both ends of the text are compared where they stand. Between them each piece is located in what the piece
before it left over, by one expression that is given the pieces as a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.like import list_runs, write_piece

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.engines.like import LikePattern, Piece

    Write = Callable[[str], str | None]


def write_like(text: str, pattern: LikePattern, write_text: Write) -> str | None:
    """Return the test of a text by a pattern, missing where the text is; None if no text can match."""
    if write_text(pattern.letters) is None:
        return None
    # The text may be a long expression, and is bound to a name as well.
    holds = " AND ".join(f"({each})" for each in _list_conditions("t", pattern, write_text))
    return f"get(transform(array_repeat({text}, 1), t -> {holds}), 0)"


def _list_conditions(text: str, pattern: LikePattern, write_text: Write) -> list[str]:
    def like(part: str, piece: Piece) -> str:
        return f"{part} LIKE {write_text(write_piece(piece))}"

    if pattern.last is None:
        return [like(text, pattern.first)]
    first, last = len(pattern.first), len(pattern.last)
    conditions = [f"length({text}) >= {first + last}"]
    conditions += [like(f"substring({text}, 1, {first})", pattern.first)] if first else []
    conditions += [like(f"substring({text}, -{last})", pattern.last)] if last else []
    if pattern.middle:
        between = f"substring({text}, {first + 1}, length({text}) - {first + last})"
        conditions.append(f"{_find_pieces(between, pattern, write_text)} OR {text} IS NULL")
    return conditions


def _find_pieces(text: str, pattern: LikePattern, write_text: Write) -> str:
    """Return whether all pieces stand in a text, in their order."""
    *others, (skipped, final) = pattern.middle
    if None not in final:
        return f"{_locate_pieces(text, pattern.middle, write_text)} IS NOT NULL"
    # Where a piece is the last to be found, its place does not matter.
    rest = _locate_pieces(text, tuple(others), write_text) if others else text
    return f"coalesce(substring({rest}, {skipped + 1}) LIKE {write_text(f'%{write_piece(final)}%')}, false)"


def _locate_pieces(text: str, middle: tuple[tuple[int, Piece], ...], write_text: Write) -> str:
    """Return what is left of a text behind the last piece, missing where one is not found."""
    if any(None in piece for _, piece in middle):
        pieces = [_write_runs(skipped, piece) for skipped, piece in middle]
        encoded = f"aggregate(array({', '.join(pieces)}), encode({text}, 'UTF-32'), (x, p) -> {_TRY_PLACES})"
        return f"decode({encoded}, 'UTF-32')"
    pieces = [
        f"named_struct('k', {skipped + 1}, 's', {write_text(''.join(map(str, piece)))})"
        for skipped, piece in middle
    ]
    return f"aggregate(array({', '.join(pieces)}), {text}, (x, p) -> {_LOCATE})"


_LOCATE = "substring(x, nullif(locate(p.s, x, p.k), 0) + length(p.s))"
# Spark has no search for a piece with a gap, so its runs are compared at every place. In four bytes a
# character, where a place is found at once.
_RUNS = "forall(p.r, r -> substring(x, 4 * (i + r.k) + 1, length(r.s)) = r.s)"
_LAST = "length(x) div 4 - p.m"
_PLACE = f"get(filter(sequence(p.k, {_LAST}), i -> {_RUNS}), 0)"
_TRY_PLACES = f"CASE WHEN {_LAST} >= p.k THEN substring(x, 4 * ({_PLACE} + p.m) + 1) END"


def _write_runs(skipped: int, piece: Piece) -> str:
    runs = [
        f"named_struct('k', {at}, 's', X'{run.encode('utf-32-be').hex()}')" for at, run in list_runs(piece)
    ]
    return f"named_struct('k', {skipped}, 'm', {len(piece)}, 'r', array({', '.join(runs)}))"
