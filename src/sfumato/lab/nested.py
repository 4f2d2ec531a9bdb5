"""A question that compares rows with the number of another, which is asked and paid for first."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack

from sfumato.curator.answers.quote import Quote
from sfumato.curator.catalog.unbounded import HasNoBounds
from sfumato.curator.plan.caveats import noisy_threshold
from sfumato.errors import PolicyError, UsageError
from sfumato.privacy.exact import parse_exact
from sfumato.privacy.risk import epsilon_for_risk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.answers.release import Release
    from sfumato.curator.payer import Spending
    from sfumato.lab.query import Query

_SHARED = ("epsilon", "delta", "rho", "share")


class NestedQuery(HasNoBounds):
    """A question whose rows are compared with numbers of others, which are released first.

    What is spent is divided equally: each question is charged its part, in turn, and the answer of the last
    one is returned. Asked again at the same spend, all of them are found and nothing is charged.
    """

    def __init__(self, numbers: Sequence[Query], outer: Callable[[list[float]], Query], text: str) -> None:
        self._numbers, self._outer, self._text = tuple(numbers), outer, text
        # What no number could make answerable is refused now.
        self._likely = outer([0.0] * len(self._numbers)).with_note(noisy_threshold())

    def quote(self, **spending: Unpack[Spending]) -> NestedQuote:
        """Return price and expected error of all questions together, from public facts only."""
        part = divide_spending(spending, len(self._numbers) + 1)
        last = self._likely.quote(**part)
        return NestedQuote(
            last.plan, last.standing, last.expected, tuple(each.quote(**part) for each in self._numbers)
        )

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> Release:
        """Charge and answer one question after the other; the answer is the last one's."""
        part = divide_spending(spending, len(self._numbers) + 1)
        if not self._numbers[0].quote(**spending).admitted:
            # All of it at once is more than is left: refused by the ledger, before a part of it is charged.
            self._numbers[0].release(key=key, **spending)
        found = [
            _read_number(each.release(key=None if key is None else f"{key}, number {place}", **part))
            for place, each in enumerate(self._numbers, start=1)
        ]
        return self._outer(found).with_note(noisy_threshold()).release(key=key, **part)

    def __repr__(self) -> str:
        many = len(self._numbers) + 1
        return f"{self._text}; {many} questions: .quote(epsilon=…) prices, .release(epsilon=…) pays for all"


def divide_spending(spending: Spending, many: int) -> Spending:
    """Return what each of so many questions is given of a spend."""
    if spending.get("error") is not None:
        raise UsageError(
            "SF-Q150", "An error cannot be asked for of several questions at once.", try_="epsilon=1"
        )
    if spending.get("risk") is not None:
        epsilon = epsilon_for_risk(spending["risk"])
        given: dict[str, Any] = {name: value for name, value in spending.items() if name != "risk"}
        given["epsilon"] = epsilon
    else:
        given = dict(spending)
    divided: Any = {
        name: parse_exact(value, name) / many if name in _SHARED and value is not None else value
        for name, value in given.items()
    }
    return divided  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class NestedQuote(Quote):
    """Price and expected error of a question, and of the questions whose numbers it compares with."""

    numbers: tuple[Quote, ...] = ()

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε of all of them; none where the noise is Gaussian."""
        own = Fraction(0) if self.free else self.plan.event.pure()
        known = [each for each in (own, *(each.epsilon for each in self.numbers)) if each is not None]
        return sum(known, Fraction(0)) if len(known) == len(self.numbers) + 1 else None

    @property
    def share(self) -> float:
        """Share of the budget that all of them would take."""
        return self.standing.share + sum(each.share for each in self.numbers)

    @property
    def admitted(self) -> bool:
        """Whether enough is left to pay for any one of them."""
        return self.standing.left_after is not None and all(each.admitted for each in self.numbers)

    def _facts(self) -> list[tuple[str, str]]:
        first = [("first", f"{each.plan.charged} for a number to compare with") for each in self.numbers]
        return [*first, *Quote._facts(self)]


def _read_number(release: Release) -> float:
    """Return the only number of an answer."""
    table = release.with_plain_numbers().to_arrow()
    value = table.column(0)[0].as_py() if table.num_rows == 1 else None
    if value is None:
        raise PolicyError(
            "SF-Q134",
            "The number to compare with is missing in its noisy answer.",
            try_="a larger ε, or a constant",
        )
    return float(value)
