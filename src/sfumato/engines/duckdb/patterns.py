"""LIKE with _ in the pattern, for which DuckDB's own would go back and its automata could grow without end.

Both ends of the text are compared where they stand. Between them each piece is located in what the piece
before it left over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.like import write_piece

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.engines.like import LikePattern, Piece

    Write = Callable[[str], str | None]


def write_like(text: str, pattern: LikePattern, write_text: Write) -> str:
    """Return the test of a text by a pattern, missing where the text is."""

    def like(part: str, asked: str) -> str:
        return f"{part} LIKE {write_text(asked)} ESCAPE '\\'"

    if pattern.last is None:
        return like(text, write_piece(pattern.first))
    size = len(pattern.last)
    start = f"left({text}, -{size})" if size else text
    conditions = [like(start, write_piece(pattern.first) + "%")]
    if size:
        conditions.append(like(f"right({text}, {size})", write_piece(pattern.last)))
    if pattern.middle:
        between = f"substr({start}, {len(pattern.first) + 1})"
        conditions.append(f"{_find_pieces(between, pattern, write_text)} OR {text} IS NULL")
    return " AND ".join(f"({each})" for each in conditions)


def _find_pieces(text: str, pattern: LikePattern, write_text: Write) -> str:
    """Return whether all pieces stand in a text, in their order."""
    *others, (skipped, final) = pattern.middle
    found = f"[{text}]"
    for before, piece in others:
        found = f"[{_locate_piece(before, piece, write_text)} FOR x IN {found}]"
    # Where a piece is the last to be found, its place does not matter, and LIKE compares it fast.
    asked = write_text(f"%{write_piece(final)}%")
    rest = f"substr(x, {skipped + 1})"
    return f"[coalesce({rest} LIKE {asked} ESCAPE '\\', false) FOR x IN {found}][1]"


def _locate_piece(skipped: int, piece: Piece, write_text: Write) -> str:
    """Return what is left of the text x behind the leftmost place of a piece, missing where it has none."""
    if None not in piece:
        place = f"instr(substr(x, {skipped + 1}), {write_text(''.join(map(str, piece)))})"
        return f"substr(x, nullif({place}, 0) + {skipped + len(piece)})"
    # DuckDB has no search for a piece with a gap, so its letters are compared at every place. In a list of
    # characters, where a place is found at once.
    letters = [(at, letter) for at, letter in enumerate(piece) if letter is not None]
    stands = _join_balanced([f"c[i + {at + 1}] = {write_text(letter)}" for at, letter in letters])
    places = f"[i FOR i IN range({skipped}, length(x) - {len(piece) - 1}) IF {stands}]"
    first = f"[{places}[1] FOR c IN [string_split(x, '')]][1]"
    return f"substr(x, {first} + {len(piece) + 1})"


def _join_balanced(conditions: list[str]) -> str:
    """Join conditions with AND as a flat tree: DuckDB limits how deep expressions are nested."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return f"({_join_balanced(conditions[:half])} AND {_join_balanced(conditions[half:])})"
