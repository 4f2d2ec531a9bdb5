"""Who pays for fits on one's own arrays: a ledger in a file, or at least a count that clones share.

A copy of an account is the same account. `clone`, `copy`, `pickle` and `joblib` hand on the path of its file,
never its contents, so nothing that scikit-learn does with an estimator creates budget.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.ledger import Charge, SqliteLedger
from sfumato.privacy.account import left, price
from sfumato.privacy.budget import SIDE_SHARE, Budget
from sfumato.privacy.events import Sequential
from sfumato.privacy.neighbours import ADD_REMOVE, common_relation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.privacy.account import Caps
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

_NAME = "population:arrays"
"""The name of the one account in the ledger file."""


class Account:
    """A budget for own arrays, kept in a ledger file: every fit that names it is charged there first.

    Neighbours add or remove one row.

    `Account("fits.ledger", epsilon=4, delta=1e-6)` creates the file or opens it; a budget once fixed stays.
    `side_share` is the part of its δ for runs that are charged as one (ε, δ), as in `Budget`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        side_share: Number = SIDE_SHARE,
    ) -> None:
        self._path = Path(path).absolute()
        known = self._path.exists()
        if not known and epsilon is None:
            raise UsageError("SF-U104", "A new account needs a budget.", try_="epsilon=4, delta=1e-6")
        # A file that exists keeps the budget it was created with.
        self._ledger = SqliteLedger.open(self._path) if known else SqliteLedger.create(self._path)
        if epsilon is not None:
            self._ledger.open_account(_NAME, Budget.of(epsilon, delta, side_share), ADD_REMOVE.value)

    def charge(self, event: Event, about: str) -> None:
        """Charge durably before anything is read, or raise; what goes wrong after that stays charged.

        The event is priced for adding or removing one row, as are those of all estimators; an event that
        holds for replacing a row only is refused.
        """
        common_relation([ADD_REMOVE, event.neighbours])
        # Every round has noise of its own, so no two are the same request.
        request = secrets.token_hex(32)
        said = {"question": about}
        self._ledger.charge(Charge((_NAME,), price(event), request, said, neighbours=ADD_REMOVE.value))

    def admits(self, events: Sequence[Event]) -> bool:
        """Return whether the budget holds a fit as a whole."""
        fit = Sequential(tuple(events))
        common_relation([ADD_REMOVE, fit.neighbours])
        return self._limits.admits(self._ledger.read_spent(_NAME), price(fit))

    def require(self, events: Sequence[Event]) -> None:
        """Raise before anything is charged if the budget does not hold a fit as a whole."""
        if not self.admits(events):
            raise BudgetError(
                "SF-B101",
                "Not enough privacy budget for this fit.",
                left=f"one question of up to ε = {format_number(self.left)}",
                try_="fewer fits, or less for each",
            )

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._ledger.read_budget(_NAME)

    @property
    def left(self) -> Fraction:
        """The largest pure ε that a fit may still cost."""
        return left(self._limits, self._ledger.read_spent(_NAME)).epsilon

    @property
    def _limits(self) -> Caps:
        return self._ledger.read_allowance(_NAME).caps

    # Copies of every kind are the same account: `clone` and `joblib` must not create budget.

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Account:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Account, (str(self._path),)

    def __repr__(self) -> str:
        left, total = format_number(self.left), format_number(self.budget.epsilon)
        return f"Account({self._path.name!r}, ε = {left} left of {total})"
