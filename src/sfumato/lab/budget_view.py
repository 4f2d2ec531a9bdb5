"""What is left of a budget, as people see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.payer import account_names
from sfumato.privacy.account import caps, left

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import LabAccess
    from sfumato.ledger import Ledger
    from sfumato.viz import Chart


@dataclass(frozen=True, slots=True)
class AccountView:
    """One account as people see it."""

    name: str
    epsilon: float
    delta: float
    left_share: float
    left_epsilon: float

    def sentence(self) -> str:
        """Return what is left, as a bar and in words: the ε of the largest question still possible."""
        filled = min(20, max(0, round(self.left_epsilon / self.epsilon * 20)))
        bar = "█" * filled + "░" * (20 - filled)
        of = f"{self.epsilon:.4g}" + (f" (δ = {self.delta:.3g})" if self.delta else "")
        rest = f"ε = {self.left_epsilon:.4g} of {of} left, as the largest question that can still be asked"
        return f"{self.name}  {bar}  {rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "left_share": self.left_share,
            "left_epsilon": self.left_epsilon,
        }


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What is left, in words, as a bar and as numbers."""

    accounts: tuple[AccountView, ...]

    def __str__(self) -> str:
        return "\n".join(account.sentence() for account in self.accounts) or "no tables are registered yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table([(a.name, a.sentence()) for a in self.accounts])

    def plot(self) -> Chart:
        """Return a chart of what was spent of each account."""
        return viz.budget_bars({account.name: 1 - account.left_share for account in self.accounts})

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of each account, ready for JSON."""
        return {account.name: account.to_dict() for account in self.accounts}


def view_budget(lab: LabAccess, analyst: str | None) -> BudgetView:
    """Return what is left of every population, and of the analyst's quotas on them if one is named."""
    names = [name for each in list_populations(lab.tables()) for name in account_names(each, analyst)]
    # A quota is granted on the populations there were, so a newer population may have none.
    known = lab.ledger.list_accounts()
    return BudgetView(tuple(view_account(lab.ledger, name) for name in names if name in known))


def list_populations(tables: Iterable[Table]) -> tuple[str, ...]:
    """Return the populations that tables are about, each once."""
    return tuple(dict.fromkeys(table.population for table in tables if not table.is_public))


def view_account(ledger: Ledger, account: str) -> AccountView:
    """Return an account as people see it."""
    budget = ledger.read_budget(account)
    rest = left(caps(budget), ledger.read_spent(account))
    return AccountView(account, float(budget.epsilon), float(budget.delta), rest.share, float(rest.epsilon))
