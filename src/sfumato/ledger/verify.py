"""Reads a chain from its first entry and decides everything in it again: links, admissions, releases.

Pure: a sequence of entries in, the books out. Start-up, `verify` and `export` all go through here, and so
can anyone with an export: `replay(map(Entry.from_json, lines))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import sub
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.contract import Verified, is_cost, is_digest, is_steps, owners, payers
from sfumato.ledger.entry import GENESIS, read, seal
from sfumato.privacy.account import NOTHING, Caps, Cost
from sfumato.privacy.account import caps as caps_of
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.ledger.entry import Entry, Kind


@dataclass(frozen=True, slots=True)
class Account:
    """The limits in force and what has been spent against them."""

    terms: int
    """The number of the entry that set the limits."""
    kind: str
    """Of that entry: "account" is for ever, "grant" can be set anew."""
    budget: Budget
    caps: Caps
    spent: Cost

    def after(self, cost: Cost) -> Account | None:
        """The account once this is spent too; none where its filters refuse."""
        total = self.spent + cost
        if not self.caps.holds(total):
            return None
        return Account(self.terms, self.kind, self.budget, self.caps, total)

    def returned(self, cost: Cost) -> Account:
        """The account once this much of it is given back. No pure ε once is none for ever."""
        spent = self.spent
        pure = None if spent.pure is None or cost.pure is None else spent.pure - cost.pure
        less = Cost(pure, tuple(map(sub, spent.renyi, cost.renyi)), spent.side - cost.side)
        return Account(self.terms, self.kind, self.budget, self.caps, less)


@dataclass(slots=True)
class Run:
    """A reservation: so many steps paid for, some begun, the rest perhaps given back."""

    accounts: tuple[str, ...]
    each: Cost
    steps: int
    drawn: int = 0
    returned: int = 0

    @property
    def state(self) -> tuple[int, int, int]:
        return self.steps, self.drawn, self.returned


def terms(account: str, budget: Budget) -> dict[str, Any]:
    """The body of an account's entry. With the caps as integers, every machine decides alike for ever."""
    caps = caps_of(budget)
    filters = {"pure": caps.pure, "renyi": list(caps.renyi), "side": caps.side}
    return {"account": account, "budget": budget.to_dict(), "caps": filters}


def account(seq: int, kind: str, fields: dict[str, Any], spent: Cost) -> Account:
    """The account as the entry number `seq` sets it."""
    filters = fields["caps"]
    caps = Caps(filters["pure"], tuple(filters["renyi"]), filters["side"])
    return Account(seq, kind, Budget.from_dict(fields["budget"]), caps, spent)


@dataclass(slots=True)
class Books:
    """What a chain says so far."""

    seq: int = 0
    head: str = GENESIS
    accounts: dict[str, Account] = field(default_factory=dict)
    charges: dict[int, tuple[str, str, str | None]] = field(default_factory=dict)
    """The request, the payers and the key of each charge."""
    releases: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By charge: the number of the release and the commitment to the answer."""
    keys: set[tuple[str, str]] = field(default_factory=set)
    """By payers."""
    runs: dict[int, Run] = field(default_factory=dict)
    """The charges that are reservations."""

    def add(self, entry: Entry) -> None:
        """Take in the next entry, or say why it cannot be it."""
        try:
            self._link(entry)
            self._post(entry.kind, read(entry.body))
        except (KeyError, TypeError, ValueError, RecursionError, UsageError) as error:
            raise self._broken("its content cannot be read") from error

    def verified(self) -> Verified:
        return Verified(self.seq, self.head, len(self.charges), len(self.releases))

    def _link(self, entry: Entry) -> None:
        self.seq += 1
        self._require(entry.seq == self.seq, "its number does not follow")
        self._require(entry.prev == self.head, "it does not name the entry before it")
        sealed = seal(entry.seq, entry.kind, entry.body, entry.prev)
        self._require(entry.hash == sealed, "its hash is not that of its content")
        self.head = sealed

    def _post(self, kind: Kind, fields: dict[str, Any]) -> None:
        match kind:
            case "account" | "grant":
                self._set(kind, fields)
            case "charge":
                self._charge(fields, Cost.from_dict(fields["cost"]), 1)
            case "release":
                self._release(fields)
            case "reserve":
                self._reserve(fields)
            case "draw" | "return":
                self._move(kind, fields)
            case _:
                raise self._broken("its kind is not known")

    def _set(self, kind: Kind, fields: dict[str, Any]) -> None:
        name = fields["account"]
        owners(name)
        old = self.accounts.get(name)
        self._require(old is None or kind == old.kind == "grant", "it changes a budget that was fixed")
        self.accounts[name] = account(self.seq, kind, fields, old.spent if old else NOTHING)

    def _charge(self, fields: dict[str, Any], each: Cost, steps: int) -> None:
        names, key = fields["accounts"], fields["key"]
        self._require(is_digest(fields["request"]) and is_cost(each), "its charge is malformed")
        self._require(names == sorted(set(names)) != [], "its accounts are not in order")
        self._require(self.accounts.keys() >= set(names), "it charges an account that was never opened")
        paid_by = payers(names)
        self._require(key is None or (paid_by, key) not in self.keys, "its key was used before")
        cost = each if steps == 1 else each * steps
        for name in names:
            self.accounts[name] = self._pay(self.accounts[name], cost)
        self.charges[self.seq] = fields["request"], paid_by, key
        if key is not None:
            self.keys.add((paid_by, key))

    def _reserve(self, fields: dict[str, Any]) -> None:
        steps, each = fields["steps"], Cost.from_dict(fields["cost"])
        self._require(is_steps(steps), "its steps are malformed")
        self._charge(fields, each, steps)
        self.runs[self.seq] = Run(tuple(fields["accounts"]), each, steps)

    def _move(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Steps that are begun, or given back because they never will be."""
        charge, steps = fields["charge"], fields["steps"]
        self._require(charge in self.runs and charge not in self.releases, "it is of no open reservation")
        run = self.runs[charge]
        rest = run.steps - run.drawn - run.returned
        self._require(is_steps(steps) and steps <= rest, "it takes steps that are not there")
        if kind == "draw":
            run.drawn += steps
            return
        self._require(steps == rest, "it does not return all that is left")
        run.returned = steps
        for name in run.accounts:
            self.accounts[name] = self.accounts[name].returned(run.each * steps)

    def _pay(self, account: Account, cost: Cost) -> Account:
        paid = account.after(cost)
        if paid is None:
            raise self._broken("it spends more than was left")
        return paid

    def _release(self, fields: dict[str, Any]) -> None:
        charge, committed = fields["charge"], fields["commitment"]
        self._require(charge in self.charges, "it answers what was never charged")
        self._require(charge not in self.releases, "it answers a charge for the second time")
        run = self.runs.get(charge)
        self._require(run is None or run.drawn > 0, "it answers a reservation of which nothing was drawn")
        self._require(is_digest(committed), "its commitment is malformed")
        self.releases[charge] = self.seq, committed

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise self._broken(why)

    def _broken(self, why: str) -> LedgerError:
        return LedgerError(
            "SF-L101",
            "The ledger's chain does not hold, so nothing is answered.",
            at=f"entry {self.seq}",
            why=why,
            try_="put back an untouched copy of the ledger, and check it against a receipt",
        )


def replay(entries: Iterable[Entry]) -> Books:
    """The books after all entries."""
    books = Books()
    for entry in entries:
        books.add(entry)
    return books


def checked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The same entries, each only after it was found to hold."""
    books = Books()
    for entry in entries:
        books.add(entry)
        yield entry
