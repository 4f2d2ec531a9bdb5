"""LIKE without regular expressions: Java's go back, and one long text could take them hours.

Both ends of the text are compared where they stand. Between them each piece is located in what the piece
before it left over, by one expression that is given the pieces as a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.like import list_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.engines.like import LikePattern, Piece

    Write = Callable[[str], str | None]


def write_like(text: str, pattern: LikePattern, write_text: Write) -> str | None:
    """Return the test of a text by a pattern, missing where the text is; None if no text can match."""
    letters = "".join(pattern.write("", "", str))
    if write_text(letters) is None:
        return None
    # The text may be a long expression, and is bound to a name as well.
    holds = " AND ".join(f"({each})" for each in _list_conditions("t", pattern, write_text))
    return f"get(transform(array_repeat({text}, 1), t -> {holds}), 0)"


def _list_conditions(text: str, pattern: LikePattern, write_text: Write) -> list[str]:
    first, last = len(pattern.first), len(pattern.last or ())
    length = f"length({text}) {'=' if pattern.last is None else '>='} {first + last}"
    start = _compare_runs(text, "0", pattern.first, write_text)
    end = _compare_runs(text, f"length({text}) - {last}", pattern.last or (), write_text)
    if not pattern.middle:
        return [length, *start, *end]
    between = f"substring({text}, {first + 1}, length({text}) - {first + last})"
    left_over = _locate_pieces(between, pattern, write_text)
    return [length, *start, *end, f"{left_over} IS NOT NULL OR {text} IS NULL"]


def _compare_runs(text: str, place: str, piece: Piece, write_text: Write) -> list[str]:
    return [
        f"substring({text}, {place} + {at + 1}, {len(run)}) = {write_text(run)}"
        for at, run in list_runs(piece)
    ]


def _locate_pieces(text: str, pattern: LikePattern, write_text: Write) -> str:
    """Return what is left of a text behind the last piece, missing where one is not found."""
    if any(None in piece for _, piece in pattern.middle):
        pieces = [_write_runs(skipped, piece) for skipped, piece in pattern.middle]
        start, step = f"encode({text}, 'UTF-32')", _TRY_PLACES
    else:
        pieces = [
            f"named_struct('k', {skipped + 1}, 's', {write_text(''.join(map(str, piece)))})"
            for skipped, piece in pattern.middle
        ]
        start, step = text, _LOCATE
    return f"aggregate(array({', '.join(pieces)}), {start}, (x, p) -> {step})"


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
