"""What jobs do inside a transaction: look at what is known, decide, and add to what will be written.

Nothing here speaks to a database. All that a job looks up was asked for before, and all that it writes is
written after the last job, in one go; meanwhile the jobs after it see it in what is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import LedgerError, PolicyError
from sfumato.ledger.contract import Charged, Released, Reserved
from sfumato.ledger.entry import Entry, now, read, write
from sfumato.ledger.refusal import unknown
from sfumato.ledger.tables import Keyed, Pending, Standing, Wanted
from sfumato.ledger.verify import account, terms
from sfumato.privacy.account import NOTHING, Cost

if TYPE_CHECKING:
    from sfumato.ledger.contract import Charge
    from sfumato.ledger.entry import Kind
    from sfumato.ledger.tables import Known
    from sfumato.ledger.verify import Account
    from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Refused:
    """Not enough is left on the account of this name."""

    cost: Cost
    name: str
    account: Account


@dataclass(frozen=True, slots=True)
class Waiting:
    """Charged under this key, and not answered yet."""

    seq: int
    request: str


class Transaction:
    """Entries after the newest one that is known, and what follows from them."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.head = known.head
        self.pending = Pending()

    @property
    def wrote(self) -> bool:
        return self.head != self.known.head

    # ---- accounts ----

    def set_terms(self, kind: Literal["account", "grant"], name: str, budget: Budget) -> None:
        old = self.known.accounts.get(name)
        if old is not None and (old.kind, old.budget) == (kind, budget):
            return
        if old is not None and (old.kind, kind) != ("grant", "grant"):
            sentence = "A budget is fixed when it is first set."
            raise PolicyError("SF-L201", sentence, account=name, set_=f"{old.budget!r}")
        fields = terms(name, budget)
        entry = self._append(kind, fields)
        spent = NOTHING if old is None else old.spent
        self._set(name, account(entry.seq, kind, fields, spent))

    # ---- charges ----

    def charge(self, charge: Charge) -> Charged | Released | Waiting | Refused:
        earlier = self._earlier(charge)
        if earlier is not None:
            return earlier
        paid = self._paid(charge, charge.cost)
        if isinstance(paid, Refused):
            return paid
        entry = self._add_charge("charge", charge, charge.body(now()), paid)
        return Charged(entry.seq, entry.hash, charge.cost, charge.request)

    def reserve(self, charge: Charge, steps: int) -> Reserved | Released | Waiting | Refused:
        earlier = self._earlier(charge)
        if earlier is not None:
            return earlier
        cost = charge.cost * steps
        paid = self._paid(charge, cost)
        if isinstance(paid, Refused):
            return paid
        entry = self._add_charge("reserve", charge, charge.body(now(), steps), paid)
        self.pending.reservations[entry.seq] = steps, 0, 0
        return Reserved(entry.seq, entry.hash, cost, charge.request, charge.accounts, charge.cost, steps)

    def release(self, charged: Charged, committed: str, nonce: str, answer: str) -> Entry:
        standing = self._standing(charged)
        if standing.answered:
            raise _not_there(charged)
        if standing.steps is not None and standing.drawn == 0:
            raise LedgerError(
                "SF-L118",
                "Nothing was drawn from this reservation, so there is nothing to answer.",
                entry=str(charged.seq),
                try_="ledger.draw(reserved) before data is read",
            )
        entry = self._append("release", {"charge": charged.seq, "commitment": committed})
        self.pending.answers.append((charged.seq, entry.seq, nonce, answer))
        self.known.charges[charged.seq] = replace(standing, answered=True)
        kept = Released(charged.seq, entry.hash, NOTHING, answer, replayed=True, entry=entry.seq)
        self.known.kept.setdefault(standing.request, kept)
        for place, keyed in self.known.keyed.items():
            if keyed.seq == charged.seq:
                self.known.keyed[place] = replace(keyed, kept=kept)
        return entry

    # ---- reservations ----

    def draw(self, reserved: Reserved, steps: int) -> int:
        standing = self._standing(reserved)
        if steps > standing.open:
            raise LedgerError(
                "SF-L119",
                "The reservation has not so many steps left.",
                asked=str(steps),
                left=str(standing.open),
                try_="a new reservation",
            )
        self._append("draw", {"charge": reserved.seq, "steps": steps})
        return self._move(reserved.seq, replace(standing, drawn=standing.drawn + steps)).drawn

    def give_back(self, reserved: Reserved) -> Cost:
        standing = self._standing(reserved)
        if standing.open == 0:
            return NOTHING
        fields = read(standing.body)  # what the chain says, not what the caller holds
        if tuple(fields["accounts"]) != reserved.accounts:
            raise _not_there(reserved)
        rest = Cost.from_dict(fields["cost"]) * standing.open
        accounts = {name: self.known.accounts[name].returned(rest) for name in fields["accounts"]}
        self._append("return", {"charge": reserved.seq, "steps": standing.open})
        self._move(reserved.seq, replace(standing, returned=standing.open))
        for name, less in accounts.items():
            self._set(name, less)
        return rest

    # ---- parts ----

    def _append(self, kind: Kind, fields: dict[str, Any]) -> Entry:
        return self._seal(kind, write({**fields, "at": now()}))

    def _seal(self, kind: Kind, body: str) -> Entry:
        entry = Entry.after(*self.head, kind, body)
        self.head = entry.seq, entry.hash
        self.pending.entries.append(entry)
        return entry

    def _set(self, name: str, account: Account) -> None:
        self.known.accounts[name] = self.pending.accounts[name] = account

    def _move(self, charge: int, standing: Standing) -> Standing:
        self.known.charges[charge] = standing
        self.pending.reservations[charge] = standing.steps or 0, standing.drawn, standing.returned
        return standing

    def _earlier(self, charge: Charge) -> Released | Waiting | None:
        """What became of this key or, failing that, of this request. Who has no account is told nothing."""
        for name in charge.accounts:
            if name not in self.known.accounts:
                raise unknown(name)
        keyed = None if charge.key is None else self.known.keyed.get((charge.payers, charge.key))
        kept = self.known.kept.get(charge.request)
        if keyed is None:
            return kept
        if keyed.request != charge.request:
            raise PolicyError("SF-L204", "This key was used for another question.", try_="a new key")
        return keyed.kept or kept or Waiting(keyed.seq, charge.request)

    def _paid(self, charge: Charge, cost: Cost) -> dict[str, Account] | Refused:
        paid = {}
        for name in charge.accounts:
            before = self.known.accounts[name]
            after = before.after(cost)
            if after is None:
                return Refused(cost, name, before)
            paid[name] = after
        return paid

    def _add_charge(self, kind: Kind, charge: Charge, body: str, paid: dict[str, Account]) -> Entry:
        entry = self._seal(kind, body)
        self.pending.charges.append((entry.seq, charge.request, charge.payers, charge.key))
        if charge.key is not None:
            self.known.keyed[charge.payers, charge.key] = Keyed(entry.seq, charge.request, None)
        for name, after in paid.items():
            self._set(name, after)
        return entry

    def _standing(self, charged: Charged) -> Standing:
        standing = self.known.charges.get(charged.seq)
        if standing is None or standing.head != charged.head:
            raise _not_there(charged)
        return standing


def wanted(charge: Charge) -> Wanted:
    """What a charge is decided by."""
    keys = {} if charge.key is None else {(charge.payers, charge.key): None}
    return Wanted(dict.fromkeys(charge.accounts), keys, {charge.request: None})


def _not_there(charged: Charged) -> LedgerError:
    return LedgerError(
        "SF-L109", "This charge is not in the ledger, or was answered before.", entry=str(charged.seq)
    )
