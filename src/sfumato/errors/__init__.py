"""Every error people see: a code, one sentence, facts in aligned fields, something to paste.

SfumatoError
├── UsageError    a call or a declaration that cannot be right       exit code 2
├── BudgetError   refused by a budget or a quota                     exit code 3
├── PolicyError   refused by what the steward declared or we allow   exit code 4
├── LedgerError   the ledger is ill or busy, nothing is answered     exit code 1
├── DiskError     the disk is full, read-only or failing            exit code 1
├── EngineError   an engine or a snapshot is out of reach, unread    exit code 1
└── SealedError   something failed after the charge: says only that  exit code 1

No error holds a data value or an internal of ours; `codes.py` has a page for each code.
"""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

__all__ = [
    "BudgetError",
    "DiskError",
    "EngineError",
    "LedgerError",
    "PolicyError",
    "PrivacyWarning",
    "SealedError",
    "SfumatoError",
    "StewardWarning",
    "UsageError",
    "missing_extra",
]


LABELS = {"asked": "requested", "left": "remaining", "why": "reason", "try": "hint"}
"""How facts are labelled in text and HTML. JSON keeps their names."""


class SfumatoError(Exception):
    """One object that renders as text, HTML and problem+json."""

    exit_code: ClassVar[int] = 1

    def __init__(self, code: str, sentence: str, /, **facts: str) -> None:
        super().__init__(code, sentence, facts)
        self.code = code
        self.sentence = sentence
        self.facts = {name.rstrip("_"): fact for name, fact in facts.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.sentence, self.facts)

    def __str__(self) -> str:
        facts = self.labelled_facts()
        width = max((len(label) for label in facts), default=0)
        lines = [f"{self.code}  {self.sentence}"]
        indent = " " * (width + 4)
        lines += [
            f"  {label.ljust(width)}  {fact}".replace("\n", f"\n{indent}") for label, fact in facts.items()
        ]
        return "\n".join(lines)

    def labelled_facts(self) -> dict[str, str]:
        """Return the facts under the labels that people see."""
        return {LABELS.get(name, name): fact for name, fact in self.facts.items()}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(fact)}</td></tr>"
            for name, fact in self.labelled_facts().items()
        )
        return f"<p><b>{escape(self.code)}</b> {escape(self.sentence)}</p><table>{rows}</table>"

    def to_dict(self) -> dict[str, Any]:
        """The members of an application/problem+json document (RFC 9457)."""
        return {
            "type": f"urn:sfumato:error:{self.code}",
            "title": self.sentence,
            "code": self.code,
            **self.facts,
        }


class UsageError(SfumatoError):
    """A call or a declaration that cannot be right."""

    exit_code = 2


class BudgetError(SfumatoError):
    """Refused by a budget or a quota."""

    exit_code = 3


class PolicyError(SfumatoError):
    """Refused by what the steward declared, or by what the product allows at all."""

    exit_code = 4


class LedgerError(SfumatoError):
    """The ledger is ill, busy or out of reach; nothing is answered."""


class DiskError(SfumatoError):
    """The disk under the lab's folder is full, cannot be written to, or fails."""


class EngineError(SfumatoError):
    """The engine, or a snapshot, cannot be opened. Raised only before any row was read."""


class SealedError(SfumatoError):
    """Something failed after the charge. The sentence is the same whatever it was."""


class StewardWarning(UserWarning):
    """A hint to the steward about a declaration that is allowed and may not be meant."""


class PrivacyWarning(UserWarning):
    """A budget or a query was typed that is allowed and promises almost no privacy."""


def missing_extra(extra: str, sentence: str, /, **facts: str) -> UsageError:
    """Return the error for a library that is not installed and that this extra brings."""
    return UsageError("SF-N113", sentence, **facts, try_=f'pip install "sfumato[{extra}]"')


def _rebuild(kind: type[SfumatoError], code: str, sentence: str, facts: dict[str, str]) -> SfumatoError:
    return kind(code, sentence, **{f"{name}_": fact for name, fact in facts.items()})
