"""What an answer is, beside what it says: its form and types, so that a client makes the same of it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.degrees import Degrees
from sfumato.curator.answers.ordered.cumulative_curve import CumulativeCurve
from sfumato.curator.answers.release import Release
from sfumato.curator.answers.results import ChosenRange, ChosenValues, NoisyFigure
from sfumato.curator.catalog.description import PublicFacts
from sfumato.lab.remote.columns import name_value, write_types

if TYPE_CHECKING:
    from collections.abc import Callable


def write_form(answer: Any, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return the form of an answer, ready for JSON; `write` is how the parts of one are written."""
    match answer:
        case Release():
            return {
                "form": "table",
                "types": write_types(answer.to_arrow()),
                "interval_types": write_types(answer.interval()),
                "labels": answer.label_names,
                "nullable": answer.nullable_names,
                "axis": answer.has_axis,
                "counted": answer.counted_rows,
                **({"all_groups": write(answer.all_groups())} if answer.hidden_groups else {}),
            }
        case NoisyFigure(value) | ChosenRange(value):
            name = "range" if isinstance(answer, ChosenRange) else "figure"
            return {"form": name, "type": name_value(value)}
        case ChosenValues(values):
            return {"form": "values", "type": name_value(values[0]) if values else "null"}
        case PublicFacts():
            lines = [list(line) for line in answer.lines]
            return {
                "form": "facts",
                "header": list(answer.header),
                "lines": lines,
                "said": answer.sentences(),
            }
        case Degrees() | CumulativeCurve():
            return _write_table(answer)
        case dict():
            parts = [{"value": [key, name_value(key)], "answer": write(each)} for key, each in answer.items()]
            return {"form": "parts", "parts": parts}
    return {"form": type(answer).__name__}


def _write_table(answer: Degrees | CumulativeCurve) -> dict[str, Any]:
    table = answer.to_arrow()
    return {
        "form": "tables",
        "columns": table.to_pydict(),
        "types": write_types(table),
        "receipts": [answer.receipt.to_dict()],
    }
