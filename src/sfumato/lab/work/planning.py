"""The price of many questions, from public facts: what each costs, and whether all can be paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number, format_share
from sfumato.privacy.account import NOTHING, Cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import Payer, Spending


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """One question of a plan, with its price and expected error."""

    text: str
    price: str
    free: bool
    errors: dict[str, float | None]
    said: tuple[str, ...] = ()
    """The errors in words: those of quantiles are in ranks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        said = {"errors": list(self.said)} if self.said else {}
        return {
            "question": self.text,
            "price": self.price,
            "free": self.free,
            "expected_error": self.errors,
            **said,
        }


@dataclass(frozen=True, slots=True)
class PopulationTotal:
    """What all questions about one population come to."""

    population: str
    share: float
    left: float
    left_after: float | None
    """Largest pure-ε question that is possible afterwards; None if not all can be paid for."""

    def __str__(self) -> str:
        after = (
            "not enough is left"
            if self.left_after is None
            else f"ε = {format_number(self.left_after)} left afterwards"
        )
        return (
            f"{self.population}: {format_share(self.share)} of the budget, "
            f"ε = {format_number(self.left)} left now, {after}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "population": self.population,
            "share": self.share,
            "left": self.left,
            "left_after": self.left_after,
        }


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """Prices of questions that may be asked. Making a plan reads no data and spends nothing."""

    questions: tuple[PlannedQuestion, ...]
    totals: tuple[PopulationTotal, ...]

    @property
    def admitted(self) -> bool:
        """Whether all questions can be paid for, one after the other."""
        return all(each.left_after is not None for each in self.totals)

    def __str__(self) -> str:
        lines = [f"{each.price:<22} {_say_errors(each):<28} {each.text}" for each in self.questions]
        return "\n".join([*lines, *map(str, self.totals)])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "questions": [each.to_dict() for each in self.questions],
            "totals": [each.to_dict() for each in self.totals],
            "admitted": self.admitted,
        }


def plan_questions(payer: Payer, asked: Sequence[tuple[str, Any]], spending: Spending) -> WorkPlan:
    """Return what questions cost, each and together, for whoever pays."""
    if not asked:
        raise UsageError(
            "SF-Q221", "A plan needs at least one question.", try_='"SELECT COUNT(*) AS n FROM visits"'
        )
    planned: list[PlannedQuestion] = []
    costs: dict[str, Cost] = {}  # of each account
    tables: dict[str, Table] = {}
    seen: set[tuple[str, Any]] = set()
    for text, question in asked:
        quote = question.quote(**spending)
        free = True
        for part in getattr(quote, "parts", (quote,)):
            known = part.plan.request, part.plan.identities
            tables.setdefault(part.plan.table.population, part.plan.table)
            repeated = part.free or known in seen
            seen.add(known)
            free = free and repeated
            for account in () if repeated else payer.accounts(part.plan.table):
                costs[account] = costs.get(account, NOTHING) + part.plan.cost
        planned.append(_describe(text, quote, free))
    totals = [_total(payer, table, costs) for table in tables.values() if not table.is_public]
    return WorkPlan(tuple(planned), tuple(totals))


def _describe(text: str, quote: Any, free: bool) -> PlannedQuestion:
    parts = getattr(quote, "parts", (quote,))
    price = "nothing" if free else " + ".join(part.plan.charged for part in parts if not part.free)
    errors = {name: error for part in parts for name, error in part.error().items()}
    said = tuple(f"{name} {error}" for part in parts for name, error, _ in part.expected.error_rows())
    return PlannedQuestion(" ".join(text.split()), price, free, errors, said)


def _total(payer: Payer, table: Table, costs: Mapping[str, Cost]) -> PopulationTotal:
    standing = payer.standing_after(table, costs)
    after = None if standing.left_after is None else float(standing.left_after)
    return PopulationTotal(table.population, standing.share, float(standing.left), after)


def _say_errors(planned: PlannedQuestion) -> str:
    return ", ".join(planned.said) or "± known with the answer"
