"""A draft of a schema file: what was declared, and for the steward to fill in, what was not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.schema_file import Schema, write_key, write_schema
from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
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


@dataclass(frozen=True, slots=True)
class Found:
    """What a source says about one column: the kind and format of its values, and whether all are there."""

    kind: str
    format: str
    required: bool


def draft_schema(engine: EngineRouter, source: Any, said: Schema) -> str:
    """Return the text of a schema file with what was said, and comments for all other columns of a source."""
    kinds = engine.list_columns(source)
    unit = said.unit.column if isinstance(said.unit, Unit) else None
    others = {name: kind for name, kind in kinds.items() if name not in said.columns and name != unit}
    texts = [name for name, kind in others.items() if kind == TEXTS]
    formats = _read_texts(engine, source, texts)
    required = engine.list_required(source)
    comments = [
        line
        for name, kind in others.items()
        for line in _comment(name, Found(*formats.get(name, (kind, "")), name in required))
    ]
    if said.budget is None:
        comments += ["", "# [budget]               # all that may ever be learnt", "# epsilon = 4"]
    return "\n".join([*_HEADER, "", write_schema(said, comments)])


def _comment(name: str, found: Found) -> list[str]:
    kind = found.kind
    hint = [f"# {_HINTS[known]}" for known in (kind.split()[-1],) if known in _HINTS]
    hint += [f'# format = "{found.format}"'] if found.format else []
    hint += ["# missing = false           # NOT NULL in the source"] if found.required else []
    return ["", f"# [columns.{write_key(name)}]          # {kind}", *hint]


def _read_texts(engine: EngineRouter, source: Any, names: list[str]) -> dict[str, tuple[str, str]]:
    """Return which columns of texts are numbers or dates, as those of a CSV file may be, and their format."""
    if not names:
        return {}
    tried = [(name, NUMBERS, each) for name in names for each in ("", *NUMBER_FORMATS)]
    tried += [(name, DATES, each) for name in names for each in ("", *DATE_FORMATS)]
    columns = tuple(
        StoredGrid(name, -_WIDE, _WIDE, Fraction(1), format=each)
        if kind == NUMBERS
        else StoredTime(name, 0, 1, False, format=each)
        for name, kind, each in tried
    )
    survey = engine.survey(source, Preparation(None, 1, columns, b""))
    found: dict[str, tuple[str, str]] = {}
    fewest: dict[str, float] = {}
    for (name, kind, each), column in zip(tried, survey.columns, strict=True):
        # Formats without a name come first, and another one must read more.
        lost = column.unreadable
        if lost < min(fewest.get(name, math.inf), (survey.rows - column.missing) / 2):
            fewest[name] = lost
            found[name] = f"mostly {kind}" if lost else kind, each
        elif lost == fewest.get(name) and found[name][1] and each:
            found[name] = found[name][0], f'{found[name][1]}" or "{each}'  # the steward knows which
    return found
