"""What people get before paying: the price, the expected error, and what would be left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.measurement import Mean, Variance
from sfumato.curator.plan import plan
from sfumato.curator.post import interval, steady
from sfumato.curator.spend import Pure
from sfumato.errors import UsageError
from sfumato.noise.scales import LARGEST
from sfumato.privacy.exact import positive, shown, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.catalog import Table
    from sfumato.curator.measurement import Figure, Question
    from sfumato.curator.plan import Plan

_MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Quote:
    """Price and expected error of a question. Making one reads no data and spends nothing."""

    plan: Plan
    share: float
    """Of the budget, that this question would take."""
    left: Fraction
    """The largest pure-ε question still possible before this one."""
    left_after: Fraction | None
    """The same after it; none when it would be refused."""
    free: bool
    """Whether the same question was answered before, so that it costs nothing."""
    given: dict[str, int]

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε it would cost; none where the noise is Gaussian."""
        return Fraction(0) if self.free else self.plan.event.pure()

    @property
    def admitted(self) -> bool:
        return self.left_after is not None

    def error(self, confidence: float = 0.95) -> dict[str, float | None]:
        """For each number of the answer, half the width of its interval, where it is known beforehand.

        Of means and variances it is for a given n; of products and quotients it is known with the answer.
        """
        asked = self.plan.question.figures
        return {name: self._half_width(figure, confidence) for name, figure in asked.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.plan.table.name,
            "unit": self.plan.table.population,
            "price": "nothing" if self.free else str(self.plan.spend),
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "free": self.free,
            "share": self.share,
            "left": float(self.left),
            "left_after": None if self.left_after is None else float(self.left_after),
            "expected_error": self.error(),
            "bias": list(self.plan.bias),
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    # ---- parts ----

    def _lines(self) -> list[tuple[str, str]]:
        after = "refused: not enough is left" if self.left_after is None else f"ε = {shown(self.left_after)}"
        asked = self.plan.question.figures
        return [
            ("price", self._price()),
            ("left before", f"ε = {shown(self.left)}"),
            ("left after", after),
            *((f"± {name} (95 %)", self._error_text(figure)) for name, figure in asked.items()),
            *(("not in ±", text) for text in self.plan.bias),
        ]

    def _price(self) -> str:
        if self.free:
            return "nothing: it was answered before"
        sums = len(self.plan.measured)
        split = f", shared by {sums} sums" if sums > 1 else ""
        share = f"{self.share:.1%} of the budget{split}"
        return f"{self.plan.spend} for {self.plan.table.population} ({share})"

    def _error_text(self, figure: Figure) -> str:
        half = self._half_width(figure, 0.95)
        if half is not None:
            return f"{half:,.4g}"
        if isinstance(figure, Variance) and figure.root:
            return 'depends on the rows of the group: given={"n": …}'
        if not isinstance(figure, Mean | Variance):
            return "known only with the answer"
        total = self.plan.measured[self.plan.sums(figure)[0]]
        return f"about {total.noise.half_width(0.95) * float(total.summand.step):,.4g} / rows of the group"

    def _half_width(self, figure: Figure, confidence: float) -> float | None:
        if steady(figure):
            return self._width(figure, np.zeros((len(self.plan.measured), 1)), confidence) / 2
        if isinstance(figure, Mean | Variance) and "n" in self.given:
            return self._typical_half_width(figure, confidence)
        return None

    def _width(self, figure: Figure, noisy: NDArray[Any], confidence: float) -> float:
        low, high = interval(self.plan, figure, noisy, confidence)
        return float(high[0] - low[0])

    def _typical_half_width(self, aggregate: Mean | Variance, confidence: float) -> float:
        """For a group of the given size: a mean halfway from the middle of the bounds to one of them, a
        variance of half the largest around the middle."""
        at = self.plan.sums(aggregate)
        typical = np.zeros((len(self.plan.measured), 1))
        typical[at[0]] = self.plan.measured[at[0]].summand.bound * self.given["n"] / 2
        typical[at[-1]] = self.given["n"]
        return self._width(aggregate, typical, confidence) / 2


def cheapest(table: Table, question: Question, error: Any, given: dict[str, int]) -> Pure:
    """The smallest pure ε, in millionths, whose half-widths at 95 % are within the errors asked for."""
    halves = error if isinstance(error, dict) else {}
    wanted = {name: float(positive(half, name)) for name, half in halves.items()}
    unknown = set(wanted) - set(question.figures)
    if unknown or not wanted:
        raise UsageError(
            "SF-N114",
            "error names numbers of the answer.",
            numbers=", ".join(question.figures),
            try_='{"n": 25}',
        )

    def meets(millionths: int) -> bool:
        priced = plan(table, question, Pure(Fraction(millionths, _MILLION)))
        quote = Quote(priced, 0.0, Fraction(0), None, False, given)
        return all(_known(name, question.figures[name], quote) <= half for name, half in wanted.items())

    low, high = _millionths(table, question), 1000 * _MILLION
    if not meets(high):
        raise UsageError("SF-N115", "No ε up to 1000 gives an error as small as this.", try_="a larger error")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return Pure(Fraction(high, _MILLION))


def _millionths(table: Table, question: Question) -> int:
    """Below the least ε whose noise can still be drawn."""
    measured = plan(table, question, Pure(Fraction(1000))).measured
    return math.ceil(max(each.l1 for each in measured) * len(measured) * _MILLION / LARGEST)


def _known(name: str, figure: Figure, quote: Quote) -> float:
    half = quote.error()[name]
    if half is not None:
        return half
    if isinstance(figure, Mean | Variance):
        raise UsageError(
            "SF-N116",
            f"The error of '{name}' depends on how many rows it is of.",
            try_='given={"n": 1000}, the rows of a group',
        )
    raise UsageError(
        "SF-N116",
        f"The error of '{name}' is known only with the answer.",
        try_="an error for what it is made of",
    )


def checked_given(given: Any) -> dict[str, int]:
    """Public guesses that only a quote uses."""
    if given is not None and (not isinstance(given, dict) or set(given) - {"n"}):
        raise UsageError("SF-N108", "given takes n, the rows of a group.", try_='given={"n": 1000}')
    return {name: whole(value, name) for name, value in (given or {}).items()}
