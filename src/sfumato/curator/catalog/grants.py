"""What the steward granted to an analyst beside a quota, which is the ledger's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Grant:
    """The tables a quota is for, the quota on populations that are registered later, and who spends it."""

    tables: tuple[str, ...] | None = None
    """None means every table."""
    later: Budget | None = None
    members: tuple[str, ...] = ()
    """Analysts who spend this quota together; empty for the quota of one analyst."""

    def to_dict(self) -> dict[str, Any]:
        tables = {} if self.tables is None else {"tables": list(self.tables)}
        later = {} if self.later is None else {"later": self.later.to_dict()}
        return tables | later | ({"members": list(self.members)} if self.members else {})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Grant:
        tables = tuple(fields["tables"]) if "tables" in fields else None
        later = Budget.from_dict(fields["later"]) if "later" in fields else None
        return cls(tables, later, tuple(fields.get("members", ())))


def find_quota_holder(grants: Mapping[str, Grant], analyst: str) -> str:
    """Return the name whose quota an analyst spends: that of the team they are a member of, or their own."""
    return next((name for name, grant in grants.items() if analyst in grant.members), analyst)
