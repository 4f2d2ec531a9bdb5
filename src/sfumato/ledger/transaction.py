"""What jobs do inside a transaction: look at the books, decide, and add to what will be written.

Nothing here speaks to a database. The books change only once the database has confirmed the commit. If
several jobs share a transaction, their changes go into a draft first, for the later jobs to see.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import LedgerError, PolicyError
from sfumato.ledger.api import Charged, Reserved
from sfumato.ledger.books import Books, write_terms
from sfumato.ledger.chain import Entry, read_date, write_body
from sfumato.ledger.refusal import (
    other_lab_error,
    other_neighbours_error,
    unknown_account_error,
)
from sfumato.privacy.account import NOTHING, Cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.api import Charge, SnapshotRead
    from sfumato.ledger.books import AccountState
    from sfumato.ledger.chain import Kind
    from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class BudgetShortage:
    """Not enough is left on the account of this name."""

    cost: Cost
    name: str
    account: AccountState


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer to this charge is kept."""

    charge: int


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A charge under the same key exists and has no answer yet."""

    charged: Charged


class Transaction:
    """Entries to write after the newest one in the books. `alone` says that one job makes all of them."""

    def __init__(self, books: Books, *, alone: bool = False) -> None:
        self.start = self.end = books.seq, books.head
        """Number and hash of the newest entry, before and after this transaction."""
        self.entries: list[Entry] = []
        self.answers: list[tuple[int, str, str]] = []
        """Charge, nonce and answer of each release."""
        # A job decides before it writes, so one that is alone never looks at a change of its own: no draft.
        self.books = books if alone else books.make_draft()
        self._confirmed = books
        self._changes: list[tuple[Entry, Callable[..., object], tuple[Any, ...]]] = []

    def apply_to_books(self) -> Books:
        """Return the books with everything that was written. Call this once it is durable."""
        for change in self._changes:
            self._confirmed.apply(*change)
        return self._confirmed

    # ---- accounts ----

    def set_terms(
        self,
        kind: Literal["account", "grant"],
        name: str,
        budget: Budget,
        neighbours: str | None,
    ) -> None:
        """Open an account, or change a grant. A budget that was fixed is never changed."""
        old = self.books.accounts.get(name)
        if old is not None and neighbours is not None and not old.accepts(neighbours):
            raise other_neighbours_error(name, old, neighbours)
        if old is not None and (old.kind, old.budget) == (kind, budget):
            return  # a repeated call writes nothing
        if old is not None and (old.kind, kind) != ("grant", "grant"):
            sentence = "A budget cannot be changed once it is set."
            raise PolicyError("SF-L201", sentence, account=name, set_=f"{old.budget!r}")
        # A filter of Gaussian DP admits nothing where the total of a quota is not known in it, and takes δ.
        known = old is None or old.spent.gaussian is not None
        fields = write_terms(name, budget, neighbours, gaussian=known)
        self._append_fields(kind, {**fields, "at": read_date()}, Books.set_terms, kind, fields)

    # ---- the lab and its snapshots ----

    def claim(self, lab: str) -> None:
        """Let the ledger belong to this lab, unless it does already."""
        if self.books.lab is None:
            self._append_fields("lab", {"lab": lab}, Books.record_lab, lab)
        elif self.books.lab != lab:
            raise other_lab_error()

    def note_snapshot(self, table: str, identity: str, before: SnapshotRead | None) -> None:
        """Note the newest snapshot of a table, unless another than `before` was noted meanwhile."""
        if before is not None:
            self.books.require_newest(before)
        fields = {"identity": identity, "table": table}
        self._append_fields("snapshot", fields, Books.record_snapshot, table, identity)

    # ---- charges ----

    def charge(self, charge: Charge) -> Charged | KeptAnswer | PendingAnswer | BudgetShortage:
        """Charge all accounts, or return why that is not needed or not possible."""
        earlier = self._find_earlier(charge)
        unread = None if isinstance(earlier, KeptAnswer) else self.books.find_unread(charge)
        if unread is not None:
            return self._resume(charge, unread)
        if earlier is not None:
            return earlier
        paid = self._pay(charge, charge.cost)
        if isinstance(paid, BudgetShortage):
            return paid
        body = charge.write_entry_body(read_date(), _draw_mark())
        details = charge.bound_request, charge.payers, charge.key, paid
        entry = self._append("charge", body, Books.record_charge, *details)
        return Charged(entry.seq, entry.hash, charge.cost, charge.request)

    def reserve(self, charge: Charge, steps: int) -> Reserved | KeptAnswer | PendingAnswer | BudgetShortage:
        """Charge all accounts for many steps, or return why that is not needed or not possible."""
        earlier = self._find_earlier(charge)
        if earlier is not None:
            return earlier
        cost = charge.cost * steps
        paid = self._pay(charge, cost)
        if isinstance(paid, BudgetShortage):
            return paid
        body, run = (
            charge.write_entry_body(read_date(), _draw_mark(), steps),
            (charge.accounts, charge.cost, steps),
        )
        details = charge.bound_request, charge.payers, charge.key, paid
        entry = self._append("reserve", body, Books.record_reservation, run, *details)
        return Reserved(entry.seq, entry.hash, cost, charge.request, *run)

    def release(self, charged: Charged, commitment: str, nonce: str, answer: str) -> Entry:
        """Add the release of an answer, and return its entry."""
        if not self._holds(charged):
            raise _unknown_charge_error(charged)
        reservation = self.books.reservations.get(charged.seq)
        if reservation is not None and reservation.drawn == 0:
            raise LedgerError(
                "SF-L109",
                "No step of this reservation was drawn, so there is nothing to answer.",
                entry=str(charged.seq),
                try_="ledger.draw(reserved) before data is read",
            )
        fields = {"charge": charged.seq, "commitment": commitment}
        entry = self._append_fields("release", fields, Books.record_release, charged.seq, commitment)
        self.answers.append((charged.seq, nonce, answer))
        return entry

    def note_unread(self, charged: Charged) -> None:
        """Give up a charge for which nothing was read."""
        if not self._holds(charged) or charged.seq in self.books.reservations:
            raise _unknown_charge_error(charged)
        fields = {"charge": charged.seq, "cost": charged.cost.to_dict()}
        self._append_fields("unread", fields, Books.record_unread, charged.seq, charged.cost)

    # ---- reservations ----

    def draw(self, reserved: Reserved, steps: int) -> int:
        """Begin steps of a reservation, and return how many are begun so far."""
        left = self._count_unused(reserved)
        begun = self.books.reservations[reserved.seq].drawn + steps
        if steps > left:
            raise LedgerError(
                "SF-L109",
                "The reservation does not have that many steps left.",
                asked=str(steps),
                left=str(left),
                try_="a new reservation",
            )
        fields = {"by": _draw_mark(), "charge": reserved.seq, "steps": steps}
        self._append_fields("draw", fields, Books.record_draw, reserved.seq, steps)
        return begun

    def give_back(self, reserved: Reserved) -> Cost:
        """Undo the charge for all unused steps, and return what was undone."""
        unused = self._count_unused(reserved)
        if unused == 0:
            return NOTHING
        # The cost comes from the chain, and not from what the caller holds.
        step_cost = self.books.reservations[reserved.seq].step_cost
        fields = {"charge": reserved.seq, "steps": unused}
        self._append_fields("return", fields, Books.record_return, reserved.seq)
        return step_cost * unused

    # ---- steps of the calls above ----

    def _append_fields(
        self, kind: Kind, fields: dict[str, Any], change: Callable[..., object], *arguments: Any
    ) -> Entry:
        return self._append(kind, write_body(fields), change, *arguments)

    def _append(self, kind: Kind, body: str, change: Callable[..., object], *arguments: Any) -> Entry:
        """Add an entry, and note which method of the books applies it with which arguments."""
        entry = Entry.make_next(*self.end, kind, body)
        self.end = entry.seq, entry.hash
        self.entries.append(entry)
        self._changes.append((entry, change, arguments))
        if self.books is not self._confirmed:
            self.books.apply(entry, change, arguments)
        return entry

    def _find_earlier(self, charge: Charge) -> KeptAnswer | PendingAnswer | None:
        """Return what became of this key or, without one, of this request.

        Accounts come first: someone who has none is not told whether the question was asked before.
        """
        books = self.books
        for name in charge.accounts:
            if name not in books.accounts:
                raise unknown_account_error(name)
        for snapshot in charge.reads:
            books.require_newest(snapshot)
        keyed = None if charge.key is None else books.keys.get((charge.payers, charge.key))
        answered = books.answered.get(charge.bound_request)
        # A key that was used decides first, whatever became of other charges for the same question.
        if keyed is None:
            return None if answered is None else KeptAnswer(answered)
        if books.charges[keyed][0] != charge.bound_request:
            raise PolicyError("SF-L204", "This key was used for another question.", try_="a new key")
        if keyed in books.releases:
            return KeptAnswer(keyed)
        if answered is not None:
            return KeptAnswer(answered)
        return PendingAnswer(Charged(keyed, books.heads.get(keyed, ""), charge.cost, charge.request))

    def _resume(self, charge: Charge, seq: int) -> Charged:
        """Take over a charge for which nothing was read. Its former holder can no longer answer it."""
        self._require_same_neighbours(charge)
        fields = {"by": _draw_mark(), "charge": seq}
        entry = self._append_fields("resume", fields, Books.record_resume, seq)
        return Charged(seq, entry.hash, charge.cost, charge.request)

    def _holds(self, charged: Charged) -> bool:
        """Return whether a charge is open and this is its holder."""
        # The hash is compared too: a charge of another ledger, or of a lost commit, has the same number.
        return charged.head != "" and self.books.heads.get(charged.seq) == charged.head

    def _pay(self, charge: Charge, cost: Cost) -> dict[str, AccountState] | BudgetShortage:
        """Return the accounts after the charge, or the first that does not admit it."""
        self._require_same_neighbours(charge)
        paid = {}
        for name in charge.accounts:
            before = self.books.accounts[name]
            after = before.after_charge(cost, charge.neighbours)
            if after is None:
                return BudgetShortage(cost, name, before)
            paid[name] = after
        return paid

    def _require_same_neighbours(self, charge: Charge) -> None:
        """Refuse a price for other neighbours than those that an account is counted for."""
        for name in charge.accounts:
            account = self.books.accounts[name]
            if not account.accepts(charge.neighbours):
                raise other_neighbours_error(name, account, charge.neighbours)

    def _count_unused(self, reserved: Reserved) -> int:
        """Return how many steps can still be drawn or given back."""
        found = self.books.reservations.get(reserved.seq)
        mine = reserved.head, reserved.accounts, reserved.step_cost, reserved.steps
        if found is None or (found.head, found.accounts, found.step_cost, found.steps) != mine:
            raise _unknown_charge_error(reserved)
        # An answered run is over: no more steps are drawn or given back.
        return 0 if reserved.seq in self.books.releases else found.unused


def _draw_mark() -> str:
    """Return random text that makes every entry that allows a read unique.

    Without it, two processes could write equal entries. After a lost commit, one of them would then take the
    other's entry for its own.
    """
    return os.urandom(8).hex()


def _unknown_charge_error(charged: Charged) -> LedgerError:
    return LedgerError(
        "SF-L109", "This charge is not in the ledger, or was answered before.", entry=str(charged.seq)
    )
