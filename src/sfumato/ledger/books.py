"""Reads a chain from its first entry and decides everything in it again: links, admissions, releases.

Pure: a sequence of entries in, the books out. Start-up, `verify` and `export` all go through here, and so
can anyone with an export: `replay(map(Entry.from_json, lines))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import sub
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.api import Verified, in_order, is_cost, is_digest, is_steps, owners, payers
from sfumato.ledger.chain import GENESIS, read, seal
from sfumato.privacy.account import NOTHING, Caps, Cost
from sfumato.privacy.account import caps as caps_of
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sfumato.ledger.chain import Entry, Kind

K = TypeVar("K")
V = TypeVar("V")


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


@dataclass(frozen=True, slots=True)
class Run:
    """A reservation: so many steps paid for, some begun, the rest perhaps given back."""

    head: str
    """The hash of its entry."""
    accounts: tuple[str, ...]
    each: Cost
    steps: int
    drawn: int = 0
    returned: int = 0

    @property
    def rest(self) -> int:
        """Steps that were neither begun nor given back."""
        return self.steps - self.drawn - self.returned

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
    heads: dict[int, str] = field(default_factory=dict)
    """The hash of each charge's entry until it is answered, and nothing from then on."""
    releases: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By charge: the number of the release and the commitment to the answer."""
    kept: dict[str, int] = field(default_factory=dict)
    """By request: the charge that was answered first, so that a question has one answer for ever."""
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """The charge that each key was used for, by payers."""
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

    # ---- what may come next --------------------------------------------------------------------------------

    def draft(self) -> Books:
        """Books that go on from these. What is put there is not here."""
        mine: tuple[dict[Any, Any], ...] = (
            self.accounts,
            self.charges,
            self.heads,
            self.releases,
            self.kept,
            self.keys,
            self.runs,
        )
        return Books(self.seq, self.head, *map(Layer, mine))

    def take(self, entry: Entry, does: Callable[..., object], what: tuple[Any, ...]) -> None:
        """The next entry, of which it is known what it does: one of the following."""
        self.seq, self.head = entry.seq, entry.hash
        does(self, *what)

    # ---- what the newest entry does, which the caller has found to be right --------------------------------

    def charged(self, request: str, paid_by: str, key: str | None, paid: dict[str, Account]) -> None:
        self.accounts.update(paid)
        self.charges[self.seq] = request, paid_by, key
        self.heads[self.seq] = self.head
        if key is not None:
            self.keys[paid_by, key] = self.seq

    def reserved(self, run: tuple[tuple[str, ...], Cost, int], *charged: Any) -> None:
        self.charged(*charged)
        self.runs[self.seq] = Run(self.head, *run)

    def answered(self, charge: int, committed: str) -> None:
        self.releases[charge] = self.seq, committed
        self.heads[charge] = ""
        request = self.charges[charge][0]
        if request not in self.kept:
            self.kept[request] = charge

    def drawn(self, charge: int, steps: int) -> None:
        run = self.runs[charge]
        self.runs[charge] = replace(run, drawn=run.drawn + steps)

    def returned(self, charge: int) -> None:
        """What the steps that are left had cost goes back to who paid."""
        run = self.runs[charge]
        rest = run.each * run.rest
        for name in run.accounts:
            self.accounts[name] = self.accounts[name].returned(rest)
        self.runs[charge] = replace(run, returned=run.rest)

    # ---- whether it is right -------------------------------------------------------------------------------

    def _link(self, entry: Entry) -> None:
        self.seq += 1
        if entry.seq != self.seq:
            raise self._broken("its number does not follow")
        if entry.prev != self.head:
            raise self._broken("it does not name the entry before it")
        self.head = seal(entry.seq, entry.kind, entry.body, entry.prev)
        if entry.hash != self.head:
            raise self._broken("its hash is not that of its content")

    def _post(self, kind: Kind, fields: dict[str, Any]) -> None:
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
                self._move(kind, fields)
            case _:
                raise self._broken("its kind is not known")

    def set_terms(self, kind: Kind, fields: dict[str, Any]) -> None:
        name = fields["account"]
        owners(name)
        old = self.accounts.get(name)
        self._require(old is None or kind == old.kind == "grant", "it changes a budget that was fixed")
        self.accounts[name] = account(self.seq, kind, fields, old.spent if old else NOTHING)

    def _charge(self, fields: dict[str, Any], each: Cost, steps: int) -> None:
        names, key, request = fields["accounts"], fields["key"], fields["request"]
        self._require(is_digest(request) and is_cost(each), "its charge is malformed")
        self._require(type(names) is list and in_order(tuple(names)), "its accounts are not in order")
        paid_by = payers(names)
        self._require(key is None or (paid_by, key) not in self.keys, "its key was used before")
        cost = each if steps == 1 else each * steps
        self.charged(request, paid_by, key, {name: self._pay(name, cost) for name in names})

    def _reserve(self, fields: dict[str, Any]) -> None:
        steps, each = fields["steps"], Cost.from_dict(fields["cost"])
        self._require(is_steps(steps), "its steps are malformed")
        self._charge(fields, each, steps)
        self.runs[self.seq] = Run(self.head, tuple(fields["accounts"]), each, steps)

    def _move(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Steps that are begun, or given back because they never will be."""
        charge, steps = fields["charge"], fields["steps"]
        self._require(charge in self.runs and charge not in self.releases, "it is of no open reservation")
        rest = self.runs[charge].rest
        self._require(is_steps(steps) and steps <= rest, "it takes steps that are not there")
        self._require(kind == "draw" or steps == rest, "it does not return all that is left")
        self.drawn(charge, steps) if kind == "draw" else self.returned(charge)

    def _pay(self, name: str, cost: Cost) -> Account:
        account = self.accounts.get(name)
        if account is None:
            raise self._broken("it charges an account that was never opened")
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
        self.answered(charge, committed)

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


class Layer(dict[K, V]):
    """What is put here lies over what lies below, and leaves it as it is. Lists only its own."""

    __slots__ = ("_below",)

    def __init__(self, below: dict[K, V]) -> None:
        self._below = below

    def __missing__(self, key: K) -> V:
        return self._below[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._below

    def get(self, key: K, default: Any = None) -> Any:
        return super().get(key, self._below.get(key, default))


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
