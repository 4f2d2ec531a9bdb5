"""Which columns a program looks at, and which tests of texts take the place of the texts themselves.

A text is tested where its row is read, and from there on the row carries the outcome: through joins, windows
and sorts go small integers only. Texts are carried where they are keys, or compared with other texts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sfumato.engines.rows import Present, Scan, list_scans
from sfumato.engines.values import (
    Column,
    Folded,
    Length,
    Lookup,
    Matches,
    Missing,
    Spelled,
    UnitBlock,
    UnitDigest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.engines.program import EngineProgram

BLOCK = "\0block"
"""The name of a unit's block; no declared name holds this character."""
DIGEST = "\0digest"
"""The name of what a unit is known by in all snapshots."""

TextTest = Matches | Spelled | Length | Missing
"""What is computed of one text where its row is read. Of `Missing` the opposite is kept: 1 or missing."""
TESTED = frozenset({Matches, Spelled, Length, Missing, Present})
"""The parts of a program that may be tests."""


@dataclass(frozen=True, slots=True)
class UsedColumns:
    """What the rest of a program needs of each source of rows, by the source's number."""

    columns: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Columns, by their declared names, and what is known of the unit."""
    tests: dict[int, list[TextTest]] = field(default_factory=lambda: defaultdict(list))
    """Tests of texts, each once, in the order in which they were found."""

    def find_test(self, part: Any) -> tuple[int, int] | None:
        """Return the source and the place of the test that stands for a part, if one does."""
        found = as_test(part) if part.__class__ in TESTED else None
        at = None if found is None else _column_of(found).at
        known = [] if at is None else self.tests.get(at, [])
        return None if at is None or found not in known else (at, known.index(found))


def find_used(program: EngineProgram[Any], holds_text: Callable[[Column], bool]) -> UsedColumns:
    """Return what anything in the program looks at. `holds_text` says which stored columns hold texts."""
    stored = {scan.at for scan in list_scans(program.rows) if isinstance(scan, Scan)}
    used = UsedColumns()
    waiting: list[Any] = [program]
    seen: set[int] = set()  # by identity: one part may be shared by many others
    while waiting:
        node = waiting.pop()
        kind = node.__class__
        test = as_test(node) if kind in TESTED else None
        if kind is tuple:
            waiting += node
        elif test is not None and _is_made_at_scan(test, stored, holds_text):
            known = used.tests[_column_of(test).at]
            known += [] if test in known else [test]
        elif kind is Column:
            used.columns[node.at].add(node.name)
        elif kind is UnitBlock:
            used.columns[node.at].add(BLOCK)
        elif kind is UnitDigest:
            used.columns[node.at].add(DIGEST)
        elif kind is Lookup:
            waiting.append(node.part)  # not the entries: there are thousands, and none of them is a column
        elif is_dataclass(node) and id(node) not in seen:
            seen.add(id(node))
            waiting += [getattr(node, name) for name in _field_names(kind)]
    return used


def _is_made_at_scan(test: TextTest, stored: set[int], holds_text: Callable[[Column], bool]) -> bool:
    # Integers may be missing too, and are carried as they are.
    column = _column_of(test)
    return column.at in stored and (not isinstance(test, Missing) or holds_text(column))


def as_test(part: Any) -> TextTest | None:
    """Return the test of one text that a part is or counts, or None."""
    match part:
        case Matches() | Spelled() | Length():
            return part
        # Folding a text makes no text missing and none present.
        case Missing(Column() | Folded() as text) | Present(Column() | Folded() as text):
            return Missing(_unfolded(text))
    return None


def _column_of(test: TextTest) -> Column:
    return _unfolded(test.part if isinstance(test, Missing) else test.text)


def _unfolded(text: Any) -> Column:
    while isinstance(text, Folded):
        text = text.text
    if not isinstance(text, Column):
        raise AssertionError(text)
    return text


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
