"""A session that cannot charge: what was answered before is given again, and all else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.errors import PolicyError
from sfumato.lab.analysts import GrantedLab
from sfumato.lab.session import Session

if TYPE_CHECKING:
    from sfumato.curator.payer import LabAccess
    from sfumato.ledger import Ledger, Released
    from sfumato.ledger.api import Charge

_CHANGES = (
    "charge",
    "claim",
    "create_key",
    "draw",
    "give_back",
    "grant",
    "note_snapshot",
    "note_unread",
    "open_account",
    "release",
    "reserve",
)


class KeptLedger:
    """A ledger of which only kept answers are given. Nothing can be charged or written through it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGES:
            return _refuse
        return getattr(self._ledger, name)

    def charge(self, charge: Charge, *, take_over: bool = False) -> Released:
        """Return the kept answer to a request, or refuse it. Whoever pays has an account, as in a charge."""
        for account in charge.accounts:
            self._ledger.read_budget(account)
        found = self._ledger.find_release(charge.request, charge.data)
        if found is None:
            raise not_kept_error()
        return found


class KeptLab:
    """A lab whose answers can be read again, and which answers nothing new."""

    def __init__(self, lab: LabAccess) -> None:
        self._lab = lab
        self.ledger = KeptLedger(lab.ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab, name)


def open_kept_session(lab: LabAccess, analyst: str | None) -> Session:
    """Return a session in which what an analyst may ask is answered if it was answered before."""
    granted = lab if analyst is None else GrantedLab(lab, analyst)
    kept: Any = KeptLab(granted)
    return Session(kept, analyst)


def not_kept_error() -> PolicyError:
    """Return the refusal of a question that has no kept answer at this price."""
    return PolicyError(
        "SF-F106",
        "This question was not answered before at this price, and a feed asks nothing new.",
        try_="release it first; then the same question and price is free",
    )


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise not_kept_error()
