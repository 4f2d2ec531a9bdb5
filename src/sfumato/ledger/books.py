"""Books: everything that follows from a chain, found by replaying it and deciding every entry again.

This is pure: a sequence of entries goes in, the books come out. Start-up, `verify` and `export` all replay
the chain here, and so can anyone who has an export: `replay_entries(map(Entry.from_json, lines))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.api import (
    Verified,
    are_sorted,
    bind_request,
    is_cost,
    is_digest,
    is_identity,
    is_relation,
    is_step_count,
    parse_account,
    write_payers,
)
from sfumato.ledger.chain import GENESIS, hash_entry, read_body
from sfumato.ledger.failures import stale_snapshot_error
from sfumato.privacy.account import NAT, NOTHING, SIDE, Caps, Cost
from sfumato.privacy.account import caps as caps_of
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sfumato.ledger.api import Charge, SnapshotRead
    from sfumato.ledger.chain import Entry, Kind

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AccountState:
    """The limits of an account that are in force, and what was spent against them."""

    terms: int
    """Number of the entry that set the limits."""
    kind: str
    """Kind of that entry: "account" is fixed for ever, "grant" can be changed."""
    budget: Budget
    caps: Caps
    spent: Cost
    neighbours: str | None = None
    """What the neighbours differ in that all charges are priced for; None until an entry names it."""

    def accepts(self, neighbours: str | None) -> bool:
        """Return whether a charge that is priced for these neighbours can be added to the others."""
        return self.neighbours is None or neighbours == self.neighbours

    def after_charge(self, cost: Cost, neighbours: str | None = None) -> AccountState | None:
        """Return the account once this is spent too, or None if its caps refuse it."""
        total = self.spent + cost
        if not self.caps.holds(total):
            return None
        # Written out, as dataclasses.replace is slow and this runs for each account of each charge.
        kept = self.neighbours or neighbours
        return AccountState(self.terms, self.kind, self.budget, self.caps, total, kept)

    def after_refund(self, cost: Cost) -> AccountState:
        """Return the account once this much is given back."""
        less = self.spent.take_back(cost)
        return AccountState(self.terms, self.kind, self.budget, self.caps, less, self.neighbours)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Steps that were paid for together: some are begun, and the rest may have been given back."""

    head: str
    """Hash of the reservation's entry."""
    accounts: tuple[str, ...]
    step_cost: Cost
    steps: int
    drawn: int = 0
    returned: int = 0

    @property
    def unused(self) -> int:
        """Steps that were neither begun nor given back."""
        return self.steps - self.drawn - self.returned

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.steps, self.drawn, self.returned


def write_terms(
    account: str, budget: Budget, neighbours: str | None = None, *, gaussian: bool = True
) -> dict[str, Any]:
    """Return the body of the entry that sets an account's limits, with or without a filter of Gaussian DP.

    It holds the caps as integers, so that every machine decides alike for ever.
    """
    filters = caps_of(budget, gaussian=gaussian).to_dict()
    named = {} if neighbours is None else {"neighbours": neighbours}
    return {"account": account, "budget": budget.to_dict(), "caps": filters, **named}


def read_terms(
    seq: int, kind: str, fields: dict[str, Any], spent: Cost, neighbours: str | None = None
) -> AccountState:
    """Return the account as the entry number `seq` sets it; what was spent and named before stays."""
    caps = Caps.from_dict(fields["caps"])
    named = neighbours or fields.get("neighbours")
    return AccountState(seq, kind, Budget.from_dict(fields["budget"]), caps, spent, named)


@dataclass(slots=True)
class Books:
    """What a chain says, up to its newest entry."""

    seq: int = 0
    head: str = GENESIS
    accounts: dict[str, AccountState] = field(default_factory=dict)
    charges: dict[int, tuple[str, str, str | None]] = field(default_factory=dict)
    """Request with its data, payers and key of each charge."""
    heads: dict[int, str] = field(default_factory=dict)
    """For each charge the hash of the entry whose holder may answer it; an empty text where nobody may."""
    releases: dict[int, tuple[int, str]] = field(default_factory=dict)
    """For each answered charge, the number of its release and the commitment to the answer."""
    answered: dict[str, int] = field(default_factory=dict)
    """For each answered request with its data, the charge that was answered first: it has one answer for
    ever."""
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """For each pair of payers and key, the charge that it was used for."""
    reservations: dict[int, Reservation] = field(default_factory=dict)
    """The charges that are reservations."""
    unread: dict[tuple[str, str, str | None], tuple[tuple[int, Cost], ...]] = field(default_factory=dict)
    """Charges that were given up before anything was read, and their costs, by request, payers and key."""

    snapshots: dict[str, str] = field(default_factory=dict)
    """Identity of the newest snapshot of each table, since there are identities."""
    lab: str | None = None
    """Identity of the lab that the ledger belongs to."""

    def add_entry(self, entry: Entry) -> None:
        """Take in the next entry, or raise an error that says why it cannot be the next."""
        try:
            self._check_link(entry)
            self._apply_fields(entry.kind, read_body(entry.body))
        # Someone else may have written the entry, so its body can hold anything, or nest without end.
        except (KeyError, TypeError, ValueError, RecursionError, UsageError) as error:
            raise self._broken_error("its content cannot be read") from error

    def summarize(self) -> Verified:
        return Verified(self.seq, self.head, len(self.charges), len(self.releases))

    # ---- changes that were decided before ------------------------------------------------------------------

    def find_unread(self, charge: Charge) -> int | None:
        """Return a charge like this one that was given up before anything was read."""
        given_up = self.unread.get((charge.bound_request, charge.payers, charge.key))
        if given_up is None:
            return None
        # Prices may change between versions, and nobody is answered at an old one.
        return next((seq for seq, cost in given_up if cost == charge.cost), None)

    def require_newest(self, snapshot: SnapshotRead) -> None:
        """Refuse a snapshot if another one of its table was noted as the newest."""
        if not snapshot.is_newest(self.snapshots.get(snapshot.table, "")):
            raise stale_snapshot_error(snapshot.table)

    def make_draft(self) -> Books:
        """Return books that continue these. Changes to the draft do not reach these."""
        tables: tuple[dict[Any, Any], ...] = (
            self.accounts,
            self.charges,
            self.heads,
            self.releases,
            self.answered,
            self.keys,
            self.reservations,
            self.unread,
            self.snapshots,
        )
        draft = Books(self.seq, self.head, *map(OverlayDict, tables))  # type: ignore[arg-type]
        draft.lab = self.lab
        return draft

    def apply(self, entry: Entry, change: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Take in the next entry by calling `change`, one of the methods below, which states its effect."""
        self.seq, self.head = entry.seq, entry.hash
        change(self, *arguments)

    # Each of these records the effect of the newest entry. The caller has checked that it is allowed.

    def record_charge(
        self, request: str, payers: str, key: str | None, paid: dict[str, AccountState]
    ) -> None:
        self.accounts.update(paid)
        self.charges[self.seq] = request, payers, key
        self.heads[self.seq] = self.head
        if key is not None:
            self.keys[payers, key] = self.seq

    def record_reservation(self, steps: tuple[tuple[str, ...], Cost, int], *charge: Any) -> None:
        self.record_charge(*charge)
        self.reservations[self.seq] = Reservation(self.head, *steps)

    def record_release(self, charge: int, commitment: str) -> None:
        self.releases[charge] = self.seq, commitment
        self.heads[charge] = ""  # no second release can name it, and the memory is free
        request = self.charges[charge][0]
        # Two charges for the same question may both be answered, if the second came before the first answer.
        if request not in self.answered:
            self.answered[request] = charge

    def record_lab(self, lab: str) -> None:
        self.lab = lab

    def record_snapshot(self, table: str, identity: str) -> None:
        self.snapshots[table] = identity

    def record_draw(self, charge: int, steps: int) -> None:
        reservation = self.reservations[charge]
        self.reservations[charge] = replace(reservation, drawn=reservation.drawn + steps)

    def record_return(self, charge: int) -> None:
        """Give the cost of all unused steps back to the accounts that paid."""
        reservation = self.reservations[charge]
        refund = reservation.step_cost * reservation.unused
        for name in reservation.accounts:
            self.accounts[name] = self.accounts[name].after_refund(refund)
        self.reservations[charge] = replace(reservation, returned=reservation.unused)

    def record_unread(self, charge: int, cost: Cost) -> None:
        asked = self.charges[charge]
        self.unread[asked] = (*self.unread.get(asked, ()), (charge, cost))
        self.heads[charge] = ""

    def record_resume(self, charge: int) -> None:
        asked = self.charges[charge]
        self.unread[asked] = tuple(each for each in self.unread[asked] if each[0] != charge)
        self.heads[charge] = self.head  # only who wrote this entry may answer the charge

    def set_terms(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Set the limits of an account. This one is checked here, for old entries and new ones alike."""
        name = fields["account"]
        parse_account(name)
        old = self.accounts.get(name)
        self._require(is_relation(fields.get("neighbours")), "its neighbours are malformed")
        self._require(old is None or kind == old.kind == "grant", "it changes a budget that was fixed")
        before = (NOTHING, None) if old is None else (old.spent, old.neighbours)
        state = read_terms(self.seq, kind, fields, *before)
        # Filters of other versions differ, but none has more pure ε or side δ than its budget.
        most = state.budget.epsilon * NAT, state.budget.side_delta * SIDE
        self._require(state.caps.pure <= most[0] and state.caps.side <= most[1], "its caps exceed its budget")
        self.accounts[name] = state

    # ---- checks of an entry that someone else wrote --------------------------------------------------------

    def _check_link(self, entry: Entry) -> None:
        self.seq += 1  # first, so that an error names the entry that is wrong
        if entry.seq != self.seq:
            raise self._broken_error("its number does not follow")
        if entry.prev != self.head:
            raise self._broken_error("it does not name the entry before it")
        self.head = hash_entry(entry.seq, entry.kind, entry.body, entry.prev)
        if entry.hash != self.head:
            raise self._broken_error("its hash is not that of its content")

    def _apply_fields(self, kind: Kind, fields: dict[str, Any]) -> None:
        match kind:
            case "charge":
                self._charge(fields, Cost.from_dict(fields["cost"]), 1)
            case "release":
                self._release(fields)
            case "account" | "grant":
                self.set_terms(kind, fields)
            case "reserve":
                self._reserve(fields)
            case "draw" | "return":
                self._move_steps(kind, fields)
            case "lab" | "snapshot":
                self._name(kind, fields)
            case "unread":
                self._give_up(fields)
            case "resume":
                self._resume(fields)
            case _:
                raise self._newer_error()

    def _name(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Take in whose ledger it is, or the newest snapshot of a table."""
        if kind == "lab":
            self._require(self.lab is None and is_identity(fields["lab"]), "it belongs to another lab")
            self.record_lab(fields["lab"])
        else:
            named = type(fields["table"]) is str and is_identity(fields["identity"])
            self._require(named, "its snapshot is malformed")
            self.record_snapshot(fields["table"], fields["identity"])

    def _charge(self, fields: dict[str, Any], step_cost: Cost, steps: int) -> None:
        names, key, request = fields["accounts"], fields["key"], fields["request"]
        data = fields.get("data", "")
        sound = is_digest(request) and is_cost(step_cost) and ("data" not in fields or is_digest(data))
        self._require(sound, "its charge is malformed")
        self._require(type(names) is list and are_sorted(tuple(names)), "its accounts are not in order")
        payers = write_payers(names)
        self._require(key is None or (payers, key) not in self.keys, "its key was used before")
        cost = step_cost if steps == 1 else step_cost * steps
        # All accounts are checked before the first is changed.
        named = fields.get("neighbours")
        self._require(is_relation(named), "its neighbours are malformed")
        paid = {name: self._pay(name, cost, named) for name in names}
        self.record_charge(bind_request(request, data), payers, key, paid)

    def _reserve(self, fields: dict[str, Any]) -> None:
        steps, step_cost = fields["steps"], Cost.from_dict(fields["cost"])
        self._require(is_step_count(steps), "its steps are malformed")
        self._charge(fields, step_cost, steps)
        self.reservations[self.seq] = Reservation(self.head, tuple(fields["accounts"]), step_cost, steps)

    def _move_steps(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Begin steps of a reservation, or give back all that are left."""
        charge, steps = fields["charge"], fields["steps"]
        is_open = charge in self.reservations and charge not in self.releases
        self._require(is_open, "it is of no open reservation")
        unused = self.reservations[charge].unused
        self._require(is_step_count(steps) and steps <= unused, "it takes steps that are not there")
        # A return takes all that is left, so no step can be drawn after it and be free.
        self._require(kind == "draw" or steps == unused, "it does not return all that is left")
        self.record_draw(charge, steps) if kind == "draw" else self.record_return(charge)

    def _give_up(self, fields: dict[str, Any]) -> None:
        charge, cost = fields["charge"], Cost.from_dict(fields["cost"])
        is_open = bool(self.heads.get(charge)) and charge not in self.reservations
        self._require(is_open and is_cost(cost), "it gives up what is no open charge")
        self.record_unread(charge, cost)

    def _resume(self, fields: dict[str, Any]) -> None:
        charge = fields["charge"]
        given_up = self.unread.get(self.charges[charge], ()) if charge in self.charges else ()
        self._require(charge in dict(given_up), "it resumes what was not given up")
        self.record_resume(charge)

    def _pay(self, name: str, cost: Cost, neighbours: str | None) -> AccountState:
        account = self.accounts.get(name)
        if account is None:
            raise self._broken_error("it charges an account that was never opened")
        # Processes of older versions name no neighbours. They write what a catalog has compared.
        same = neighbours is None or account.accepts(neighbours)
        self._require(same, "it is priced for other neighbours than its account")
        paid = account.after_charge(cost, neighbours)
        if paid is None:
            raise self._broken_error("it spends more than was left")
        return paid

    def _release(self, fields: dict[str, Any]) -> None:
        charge, commitment = fields["charge"], fields["commitment"]
        self._require(charge in self.charges, "it answers what was never charged")
        self._require(charge not in self.releases, "it answers a charge for the second time")
        self._require(self.heads[charge] != "", "it answers a charge that was given up")
        reservation = self.reservations.get(charge)
        # Otherwise everything could be given back afterwards, and the answer would have been free.
        has_drawn = reservation is None or reservation.drawn > 0
        self._require(has_drawn, "it answers a reservation of which nothing was drawn")
        self._require(is_digest(commitment), "its commitment is malformed")
        self.record_release(charge, commitment)

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise self._broken_error(why)

    def _newer_error(self) -> LedgerError:
        # Not a broken chain: whoever then restores an older copy forgets what was spent since.
        return LedgerError(
            "SF-L103",
            "A newer version of sfumato has written to this ledger.",
            at=f"entry {self.seq}",
            why="its kind is not known",
            try_="pip install --upgrade sfumato, on every machine that uses the ledger",
        )

    def _broken_error(self, why: str) -> LedgerError:
        return LedgerError(
            "SF-L101",
            "The ledger's chain is broken, so nothing is answered.",
            at=f"entry {self.seq}",
            why=why,
            try_="restore an untouched copy of the ledger, and check it against a receipt",
        )


class OverlayDict(dict[K, V]):
    """Holds changes to a dictionary without touching it. Lookups see both, iteration only the changes."""

    __slots__ = ("_below",)

    def __init__(self, below: dict[K, V]) -> None:
        self._below = below

    def __missing__(self, key: K) -> V:
        return self._below[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._below

    def get(self, key: K, default: Any = None) -> Any:
        return super().get(key, self._below.get(key, default))


def replay_entries(entries: Iterable[Entry]) -> Books:
    """Return the books after all entries, or raise at the first that does not hold."""
    books = Books()
    for entry in entries:
        books.add_entry(entry)
    return books


def check_entries(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield each entry after it was found to hold."""
    books = Books()
    for entry in entries:
        books.add_entry(entry)
        yield entry
