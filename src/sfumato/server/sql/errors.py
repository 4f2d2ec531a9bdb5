"""Our errors as PostgreSQL's: code and sentence are the message, facts the detail, and `try` the hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, PolicyError, SealedError, SfumatoError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATES: Mapping[str, str] = {
    "SF-F135": "42P01",
    "SF-F137": "25P02",
    "SF-F136": "57014",
    "SF-F130": "0A000",
    "SF-F133": "0A000",
    "SF-F134": "0A000",
    "SF-F139": "26000",
    "SF-Q101": "42601",
    "SF-W101": "28P01",
    "SF-W108": "53400",
}
_KINDS: tuple[tuple[type[SfumatoError], str], ...] = (
    (BudgetError, "53400"),
    (PolicyError, "42501"),
    (UsageError, "22023"),
    (SealedError, "XX000"),
)
BAD_FRAME = "08P01"
TOO_MANY = "53300"
NOT_LET_IN = "28P01"


def describe_error(problem: SfumatoError, severity: str = "ERROR") -> dict[str, str]:
    """Return the fields of an error message."""
    state = _STATES.get(problem.code) or next(
        (state for kind, state in _KINDS if isinstance(problem, kind)), "58000"
    )
    facts = "\n".join(f"{name}: {fact}" for name, fact in problem.facts.items() if name != "try")
    return {
        "S": severity,
        "V": severity,
        "C": state,
        "M": f"{problem.code}  {problem.sentence}",
        "D": facts,
        "H": problem.facts.get("try", ""),
    }


def describe_fatal(state: str, sentence: str) -> dict[str, str]:
    """Return the fields of an error after which the connection ends."""
    return {"S": "FATAL", "V": "FATAL", "C": state, "M": sentence}
