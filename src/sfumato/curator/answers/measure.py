"""Something to be measured: what it would cost, and its answer. Every kind of question is one of these."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from sfumato.curator.answers.quote import Quote
from sfumato.errors import PrivacyWarning
from sfumato.privacy.risk import describe_weak_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.answers.quote import ExpectedError
    from sfumato.curator.payer import Payer, Spending
    from sfumato.ledger import Released

Answer = TypeVar("Answer")


class Measure(Generic[Answer]):
    """Something to be measured. `quote` says what it would cost, `release` pays and answers.

    `plan` makes the priced steps for a spend, `read` makes the answer out of what the ledger released for a
    plan, and `error` says how far off it is likely to be. All three are made for plans of one kind.
    """

    def __init__(
        self,
        payer: Payer,
        text: str,
        plan: Callable[[Spending], Any],
        read: Callable[[Any, Released], Answer],
        error: Callable[[Any, Spending], ExpectedError],
    ) -> None:
        self._payer, self._text = payer, text
        self._make_plan, self._read, self._error = plan, read, error

    def quote(self, **spending: Unpack[Spending]) -> Quote:
        """Return price and expected error, from public facts only.

        Say what to spend in one way: epsilon, epsilon and delta, rho, share of the budget, or the error
        wished for, such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages.
        """
        return self._quote(spending)

    def _quote(self, spending: Spending) -> Quote:
        """Return price and expected error for `quote`, whose caller is the one that is warned."""
        plan = self._make_plan(spending)
        quote = Quote(plan, self._payer.standing(plan), self._error(plan, spending))
        if quote.warning:
            warnings.warn(quote.warning, PrivacyWarning, stacklevel=3)
        return quote

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> Answer:
        """Charge, then answer. The same question released before comes back for free.

        Say what to spend as in `quote`. With a `key`, a retry gives the same answer for one charge, and never
        another question's.
        """
        return self._pay(key, spending)

    def _pay(self, key: str | None, spending: Spending) -> Answer:
        """Charge and answer for `release`, whose caller is the one that is warned."""
        plan = self._make_plan(spending)
        if weak := describe_weak_query(plan.event):
            warnings.warn(weak, PrivacyWarning, stacklevel=3)
        return self._read(plan, self._payer.pay(plan, self._text, key))

    def __repr__(self) -> str:
        return f"{self._text}; .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"
