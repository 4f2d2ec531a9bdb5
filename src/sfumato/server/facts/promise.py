"""The promise page: what a lab promises to the people in its tables, in sentences, odds and pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.curator.catalog.description import describe_protection
from sfumato.curator.payer import population_account
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.lab.budget_view import list_blocks
from sfumato.privacy.budget import Budget
from sfumato.privacy.deployments import DEPLOYMENTS
from sfumato.privacy.explain import WEAK, Explanation, explain
from sfumato.privacy.graph_units import names_edges
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.risk import bound_risk
from sfumato.viz.icons import IconPart, icon_array

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.lab.lab import Lab

LEAST_BASELINE, MOST_BASELINE = 0.001, 0.999
"""Baselines that a reader may set; outside of them a picture of people shows nothing."""
MOST_PEOPLE = 10**10
"""Largest number of people that a reader may set: more than there are."""
_HUNDRED, _THOUSAND = 100, 1000


@dataclass(frozen=True, slots=True)
class PromisedRisk:
    """What a guarantee makes of a risk: the chance of any consequence, without and with one's own rows."""

    budget: Budget
    baseline: float

    @property
    def highest(self) -> float:
        """Largest chance of the same consequence with one's own rows in the data."""
        return bound_risk(self.budget.epsilon, self.budget.delta, self.baseline)

    @property
    def people(self) -> int:
        """Number of people in the picture: a thousand where a hundred would not show the baseline."""
        return _HUNDRED if self.baseline * _HUNDRED >= 1 else _THOUSAND

    @property
    def counts(self) -> tuple[int, int]:
        """How many of them it happens to without taking part, rounded, and at most with it, rounded up."""
        before = max(1, round(self.baseline * self.people))
        return before, max(before, count_at_most(self.highest, self.people))

    @property
    def sentence(self) -> str:
        """One sentence with both numbers."""
        before, after = self.counts
        said = f"Something bad that happens to {before} of {self.people:,} people anyway"
        if after == self.people:
            return f"{said} may happen to almost all of those who take part: this ε promises little."
        return f"{said} happens to at most {after} of {self.people:,} of those who take part."

    def draw_icons(self, identity: str) -> str:
        """Return the picture of both numbers as SVG."""
        before, after = self.counts
        parts = [
            IconPart("are harmed anyway", before, "full"),
            IconPart("at most are harmed because they took part", after - before, "ringed"),
            IconPart("are not harmed", self.people - after, "outline"),
        ]
        columns = 20 if self.people == _HUNDRED else 40
        return icon_array(parts, title=self.sentence, columns=columns, identity=identity)


@dataclass(frozen=True, slots=True)
class PopulationPromise:
    """What is promised to everyone of one population, over all that is ever released about them."""

    population: str
    budget: Budget
    relation: Neighbours
    tables: tuple[tuple[str, str], ...]
    """Names of its tables, each with what is protected there; none where all were dropped."""
    baseline: float
    lifetime: str = ""
    """What comes on top where blocks of time have budgets of their own, in words."""

    @property
    def explanation(self) -> Explanation:
        """The budget in odds, for someone who is 50:50 unsure."""
        return explain(self.budget.epsilon, self.budget.delta)

    @property
    def risk(self) -> PromisedRisk:
        """What the budget makes of the risk at the baseline."""
        return PromisedRisk(self.budget, self.baseline)

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        right = say_at_most(self.explanation.success)
        return f"{self._doubt()} is right at most {right} times in 100, whatever is ever asked."

    @property
    def is_weak(self) -> bool:
        """Whether the budget hides little about one person."""
        return self.budget.epsilon > WEAK

    @property
    def compared_with(self) -> str:
        """What taking part is compared with, where it is not staying away; else nothing."""
        if names_edges(self.population):
            return "Here a connection is protected: compared is what happens if it were not in the data."
        if self.relation is Neighbours.REPLACE_ONE:
            return "Here compared is what happens if your rows said something else, not if you stayed away."
        return ""

    def _doubt(self) -> str:
        if names_edges(self.population):
            return "Someone who is 50:50 unsure whether two people are connected"
        if self.relation is Neighbours.REPLACE_ONE:
            return (
                "That you took part is not hidden here, what your rows say is. Someone who is 50:50 unsure "
                "between two versions of them"
            )
        return "Someone who is 50:50 unsure whether you are in these data"


@dataclass(frozen=True, slots=True)
class ComparedGuarantee:
    """One line of the comparison with what others have published."""

    who: str
    what: str
    epsilon: str
    delta: str
    right: str
    """Right guesses in 100 from 50:50, at most."""
    risk: str
    """The risk at the baseline, at most, in 100."""
    source: str
    is_own: bool


@dataclass(frozen=True, slots=True)
class LabPromise:
    """Everything that the promise page says."""

    baseline: float
    populations: tuple[PopulationPromise, ...]
    comparison: tuple[ComparedGuarantee, ...]

    @property
    def example(self) -> PromisedRisk:
        """A risk to draw where no table is registered yet: that of ε = 1."""
        return PromisedRisk(Budget.of(1), self.baseline)


def describe_promise(lab: Lab, baseline: float) -> LabPromise:
    """Return what the lab promises to every population that it ever opened a budget for."""
    populations = tuple(
        _describe_population(lab, name, relation, baseline)
        for name, relation in lab.contents.relations.items()
        if population_account(name) in lab.ledger.list_accounts()
    )
    return LabPromise(baseline, populations, compare_promises(populations, baseline))


def compare_promises(
    populations: tuple[PopulationPromise, ...], baseline: float
) -> tuple[ComparedGuarantee, ...]:
    """Return one's own budgets among the published guarantees, the strongest first."""
    own = [("this lab", each.population, each.budget, "") for each in populations]
    others = [(one.who, one.what, Budget.of(one.epsilon, one.delta), one.source) for one in DEPLOYMENTS]
    ordered = sorted(own + others, key=lambda line: (line[2].epsilon, line[2].delta))
    return tuple(_compare(who, what, budget, source, baseline) for who, what, budget, source in ordered)


def parse_baseline(typed: str) -> float:
    """Return a baseline that was typed as so many in 100; whatever is no such number becomes 10."""
    try:
        chance = float(typed) / 100
    except ValueError:
        return 0.1
    return min(MOST_BASELINE, max(LEAST_BASELINE, chance)) if math.isfinite(chance) else 0.1


def parse_people(typed: str) -> int:
    """Return a number of people that was typed; whatever is no such number becomes 100,000."""
    digits = typed.replace(",", "").strip()
    known = digits.isascii() and digits.isdigit()
    return min(MOST_PEOPLE, max(1, int(digits))) if known else 100_000


def say_at_most(share: float) -> str:
    """Return a share in 100, with one digit behind the point and more near 100, rounded up."""
    percent = min(100.0, 100 * share)
    rim = 100 - percent
    digits = 1 if rim >= 1 or rim < 1e-9 else 1 - math.floor(math.log10(rim))
    return format_decimal(math.ceil(percent * 10**digits - 1e-7) / 10**digits, digits).removesuffix(".0")


def count_at_most(share: float, people: int) -> int:
    """Return how many people a share is, rounded up."""
    return min(people, math.ceil(share * people - 1e-9))


def draw_odds(epsilon: Fraction, delta: Fraction, identity: str = "odds") -> str:
    """Return a picture of a hundred guesses whether someone is in the data, from 50:50, as SVG."""
    success = explain(epsilon, delta).success
    right = count_at_most(success, _HUNDRED)
    parts = [
        IconPart("right by a coin toss alone", 50, "full"),
        IconPart("at most right because of all answers together", right - 50, "ringed"),
        IconPart("wrong", _HUNDRED - right, "outline"),
    ]
    title = f"Of 100 guesses whether someone is in the data, at most {say_at_most(success)} are right."
    return icon_array(parts, title=title, identity=identity)


def _describe_population(lab: Lab, name: str, relation: Neighbours, baseline: float) -> PopulationPromise:
    tables = tuple((each.name, describe_protection(each)) for each in lab.tables() if each.population == name)
    blocks = list_blocks(lab.ledger, [name])
    lifetime = _say_blocks(lab.ledger.read_budget(population_account(blocks[0]))) if blocks else ""
    budget = lab.ledger.read_budget(population_account(name))
    return PopulationPromise(name, budget, relation, tables, baseline, lifetime)


def _say_blocks(each: Budget) -> str:
    delta = f", δ = {format_number(each.delta)}" if each.delta else ""
    return (
        "Streams that are paid for block by block come on top: for each of them at most one block's budget, "
        f"ε = {format_number(each.epsilon)}{delta}."
    )


def _compare(who: str, what: str, budget: Budget, source: str, baseline: float) -> ComparedGuarantee:
    told = explain(budget.epsilon, budget.delta)
    return ComparedGuarantee(
        who,
        what,
        format_number(budget.epsilon),
        format_number(budget.delta) if budget.delta else "0",
        f"{say_at_most(told.success)} in 100",
        f"{say_at_most(bound_risk(budget.epsilon, budget.delta, baseline))} in 100",
        source,
        who == "this lab",
    )
