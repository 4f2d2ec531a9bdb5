"""What the steward granted to an analyst beside a quota, which is the ledger's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Grant:
    """The tables that an analyst may ask about, and their quota on populations that are registered later."""

    tables: tuple[str, ...] | None = None
    """None means every table."""
    later: Budget | None = None

    def to_dict(self) -> dict[str, Any]:
        tables = {} if self.tables is None else {"tables": list(self.tables)}
        return tables | ({} if self.later is None else {"later": self.later.to_dict()})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Grant:
        tables = tuple(fields["tables"]) if "tables" in fields else None
        return cls(tables, Budget.from_dict(fields["later"]) if "later" in fields else None)
