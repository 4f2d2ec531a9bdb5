"""A session that reads answers which were kept, and can charge nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.lab.session import Session
from sfumato.ledger.api import hash_reads

if TYPE_CHECKING:
    from sfumato.curator.payer import LabAccess, Payer
    from sfumato.ledger import Charge, Ledger, Released


class KeptOnlyLedger:
    """A ledger as it is read: what was answered is given again, and what would be charged is refused."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def charge(self, charge: Charge, *, take_over: bool = False) -> Released:
        """Return the kept answer, or refuse."""
        known = self._ledger.find_release(charge.request, hash_reads(_list_identities(charge)))
        if known is None:
            raise not_kept_error()
        found: Any = self._ledger.charge(charge)
        return found  # type: ignore[no-any-return]

    def reserve(self, charge: Charge, steps: int) -> Any:
        """Refuse: a run of steps is always charged."""
        raise not_kept_error()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


class KeptOnlyLab:
    """A lab of which only answers that were kept can be read."""

    def __init__(self, lab: LabAccess) -> None:
        self._lab = lab
        self.ledger = KeptOnlyLedger(lab.ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab, name)


def restrict_to_kept(session: Session) -> Session:
    """Return a session for which everything that was not answered before is refused."""
    payer: Payer = session._payer
    lab: Any = KeptOnlyLab(payer.lab)
    return Session(lab, payer.analyst, payer.slots)


def not_kept_error() -> PolicyError:
    """Return the refusal of what would have to be charged."""
    return PolicyError(
        "SF-W168",
        "This was not answered before, or the table has changed since, so it would have to be charged.",
        try_="release or fit it again",
    )


def _list_identities(charge: Charge) -> tuple[tuple[str, str], ...]:
    return tuple((each.table, each.identity) for each in charge.reads)
