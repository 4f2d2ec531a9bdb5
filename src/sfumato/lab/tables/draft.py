"""A draft of a schema file: what was declared, and for the steward to fill in, what was not."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.schema_file import Schema, write_key, write_schema
from sfumato.engines.ingest import DATES, NUMBERS, TEXTS
from sfumato.engines.snapshot import Preparation, StoredGrid, StoredTime
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from sfumato.engines.router import EngineRouter

_HEADER = (
    "# Declare each column that analysts may use; others cannot be used. All of this is public, so bounds",
    "# and lists come from what is known about the subject and not from the rows.",
)
_HINTS = {
    NUMBERS: "between = [LOW, HIGH]",
    DATES: "between = [2020-01-01, 2024-12-31]",
    TEXTS: 'one_of = ["…", "…"]     # or: text = true',
}
_WIDE = 2**52


def draft_schema(engine: EngineRouter, source: Any, said: Schema) -> str:
    """Return the text of a schema file with what was said, and comments for all other columns of a source."""
    kinds = engine.list_columns(source)
    unit = said.unit.column if isinstance(said.unit, Unit) else None
    others = {name: kind for name, kind in kinds.items() if name not in said.columns and name != unit}
    texts = [name for name, kind in others.items() if kind == TEXTS]
    others |= _read_texts(engine, source, texts)
    comments = [line for name, kind in others.items() for line in _comment(name, kind)]
    if said.budget is None:
        comments += ["", "# [budget]               # all that may ever be learnt", "# epsilon = 4"]
    return "\n".join([*_HEADER, "", write_schema(said, comments)])


def _comment(name: str, kind: str) -> list[str]:
    hint = [f"# {_HINTS[known]}" for known in (kind.split()[-1],) if known in _HINTS]
    return ["", f"# [columns.{write_key(name)}]          # {kind}", *hint]


def _read_texts(engine: EngineRouter, source: Any, names: list[str]) -> dict[str, str]:
    """Return which columns of texts are numbers or dates, as those of a CSV file may be."""
    if not names:
        return {}
    numbers = tuple(StoredGrid(name, -_WIDE, _WIDE, Fraction(1)) for name in names)
    dates = tuple(StoredTime(name, 0, 1, False) for name in names)
    found: dict[str, str] = {}
    for columns, kind in ((numbers, NUMBERS), (dates, DATES)):
        survey = engine.survey(source, Preparation(None, 1, columns, b""))
        for column in survey.columns:
            if column.unreadable < (survey.rows - column.missing) / 2:
                found[column.name] = f"mostly {kind}" if column.unreadable else kind
    return found
