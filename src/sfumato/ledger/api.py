"""What a ledger promises, whichever database keeps it, and the values that pass through its door."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import UsageError
from sfumato.ledger.chain import require_utf8, write
from sfumato.privacy.account import ORDERS, Cost
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from sfumato.ledger.chain import Entry
    from sfumato.ledger.receipts import SignedHead
    from sfumato.privacy.budget import Budget

LONGEST_NAME = 200
"""Of an account or a key, in characters."""

MOST_STEPS = 10**9
"""Of a reservation."""

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Charge:
    """A priced question. The price comes from public facts, so it can be told to anyone."""

    accounts: tuple[str, ...]
    """All that pay. A population is "population:<name>", a quota "quota:<population>:<analyst>"."""
    cost: Cost
    request: str
    """SHA-256 of the canonical question with its snapshot and spend: equal requests have equal answers."""
    about: dict[str, Any]
    """A public description for people who read the ledger; nothing is decided by it."""
    key: str | None = None
    """The caller's name for this attempt. It belongs to the accounts that pay: others may use the same."""
    payers: str = field(init=False, repr=False, compare=False)
    """Who pays, as one text."""
    _body: tuple[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "accounts", tuple(sorted(self.accounts)))
        _require(len(set(self.accounts)) == len(self.accounts) > 0, "it names its accounts, each once")
        for name in self.accounts:
            owners(name)
        _require(self.key is None or _fits(self.key), f"a key is a text of 1 to {LONGEST_NAME} characters")
        require_utf8(self.key or "")
        _require(is_digest(self.request), "a request is a SHA-256 in hexadecimal")
        _require(is_cost(self.cost), "a cost is whole numbers, none below zero, one for each order")
        object.__setattr__(self, "payers", payers(self.accounts))
        object.__setattr__(self, "_body", self._known())

    def _known(self) -> tuple[str, str]:
        """What of the body can be written before the ledger is locked: all but the time and the mark."""
        first = f'{{"about":{write(self.about)},"accounts":{self.payers}'
        key, cost = canonical_json(self.key), written(self.cost)
        return first, f'"cost":{cost},"key":{key},"request":"{self.request}"'

    def body(self, at: str, by: str, steps: int | None = None) -> str:
        """The body of its entry: what `write` makes of all fields."""
        first, last = self._body
        run = "" if steps is None else f',"steps":{steps}'
        return f'{first},"at":"{at}","by":"{by}",{last}{run}}}'


@dataclass(frozen=True, slots=True)
class Charged:
    """A charge that is durable and not yet answered. Who holds it may read data once."""

    seq: int
    head: str
    """The hash of the charge's entry."""
    cost: Cost
    request: str


@dataclass(frozen=True, slots=True)
class Reserved(Charged):
    """Steps that are paid for and not yet begun. Data may be read for those drawn, once each."""

    accounts: tuple[str, ...]
    each: Cost
    """Of one step; `cost` is that of all."""
    steps: int


@dataclass(frozen=True, slots=True)
class Released:
    """An answer that is kept. Its receipt is good while the chain holds an entry with the hash `head`."""

    seq: int
    """Of the charge."""
    head: str
    """The hash of the release's entry, which seals the answer and everything before it."""
    cost: Cost
    """Of this call: nothing when it was answered before."""
    answer: str
    replayed: bool
    entry: int = field(default=0, compare=False)
    """The number of the release."""
    signed: SignedHead | None = field(default=None, compare=False)
    """The same for others to believe, where the key and the `receipts` extra are there."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a sound ledger holds."""

    entries: int
    head: str
    charges: int
    releases: int

    def __str__(self) -> str:
        answered = f"{self.releases} of {self.charges} charges answered"
        return f"{self.entries} entries hold, {answered}, head {self.head}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Ledger(Protocol):
    """One append-only chain of entries; totals and answers follow from it.

    A question is charged when its charge entry exists and released when a release entry for it does.
    A charge without a release is spent. A ledger that finds itself ill refuses every call.
    """

    def open_account(self, account: str, budget: Budget) -> None:
        """Fix a population's budget for ever. Again with the same budget: nothing happens."""

    def grant(self, account: str, budget: Budget) -> None:
        """Open a quota or set its limits anew. What was spent stays spent."""

    def budget(self, account: str) -> Budget:
        """The limits in force."""

    def spent(self, account: str) -> Cost:
        """The total of all charges."""

    def accounts(self) -> tuple[str, ...]:
        """Every account, in order of name."""

    def charge(self, charge: Charge) -> Charged | Released:
        """Charge all accounts or none, durably, before returning; or give the answer kept from before.

        A request that has been released is answered from the ledger at no cost, and so is the same
        key with the same request. The same key while its answer is still being made waits for it. A key
        means something only together with the accounts that pay: under other accounts the same text is
        another key. All accounts must exist even then: who has none may not see what others paid for.
        """

    def release(self, charged: Charged, answer: str) -> Released:
        """Keep the answer, durably, before anyone sees it. Of a reservation a step must have been drawn."""

    def reserve(self, charge: Charge, steps: int) -> Reserved | Released:
        """Charge for a run of many steps at once; `charge.cost` is that of one step. Else as `charge`."""

    def draw(self, reserved: Reserved, steps: int = 1) -> int:
        """Begin steps, durably, before any data is read for them. How many are begun so far."""

    def give_back(self, reserved: Reserved) -> Cost:
        """Undo the charge for all steps that were not drawn, and let no more be drawn.

        Only where the run ends by what was released or is public. After a failure the reservation is kept
        whole: where a run broke off can depend on the data, and what comes back would tell.
        """

    def find(self, request: str) -> Released | None:
        """The kept answer to a request, if there is one. Free, and asks for no account."""

    def entries(self) -> Iterator[Entry]:
        """The chain from its first entry."""

    def verify(self) -> Verified:
        """Check the chain, every admission in it, and all that was derived from it."""

    def export(self, to: TextIO) -> int:
        """Write the chain as JSON lines, checking it on the way. Returns how many."""

    def holds(self, head: str) -> int | None:
        """The number of the entry with this hash, if the chain has it."""

    def receipt(self, entry: int | None = None) -> SignedHead:
        """A signed head for an outsider to keep: of this entry, or of the newest."""

    def public_key(self) -> str:
        """What receipts are checked with, in hexadecimal."""

    def make_key(self) -> str:
        """A key for receipts where there is none, and its public part. Who knew a lost one is to be told."""

    def identity(self) -> str:
        """What tells this ledger from others, as long as nobody means harm."""

    def close(self) -> None:
        """Let go of the database. Later calls are refused."""


def is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_steps(steps: object) -> bool:
    return type(steps) is int and 0 < steps <= MOST_STEPS


def is_cost(cost: Cost) -> bool:
    """Whole numbers that can only make a total grow."""
    pure = () if cost.pure is None else (cost.pure,)
    amounts = (*pure, *cost.renyi, cost.side)
    return len(cost.renyi) == len(ORDERS) and set(map(type, amounts)) == {int} and min(amounts) >= 0


def written(cost: Cost) -> str:
    """As `canonical_json` writes it, without looking at each number for what it is."""
    pure = "null" if cost.pure is None else cost.pure
    return f'{{"pure":{pure},"renyi":[{",".join(map(str, cost.renyi))}],"side":{cost.side}}}'


@lru_cache(maxsize=4096)  # a check asks it for each charge, and most are paid by the same few
def in_order(accounts: tuple[str, ...]) -> bool:
    """By name, each once, and not none."""
    return list(accounts) == sorted(set(accounts)) != []


def payers(accounts: Sequence[str]) -> str:
    """Accounts in order of name as one text, which no others share: the name space of their keys."""
    return _payers(tuple(accounts))


@lru_cache(maxsize=4096)
def _payers(accounts: tuple[str, ...]) -> str:
    return canonical_json(list(accounts))


def owners(account: str) -> tuple[str, str | None]:
    """The population and, for a quota, the analyst. No name can be read in two ways, others are refused."""
    _require(_fits(account), f"an account is a text of 1 to {LONGEST_NAME} characters")
    return _owners(account)


@lru_cache(maxsize=4096)
def _owners(account: str) -> tuple[str, str | None]:
    require_utf8(account)
    match account.split(":"):
        case ["population", population] if population:
            return population, None
        case ["quota", population, analyst] if population and analyst:
            return population, analyst
    raise UsageError(
        "SF-L306",
        "This is not the name of an account.",
        rule="population:<name> or quota:<population>:<analyst>, with no other colon",
    )


def _fits(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)
