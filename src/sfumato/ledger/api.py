"""What a ledger promises, whichever database keeps it, and the values that its callers pass and receive."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import UsageError
from sfumato.ledger.chain import require_utf8, write_body
from sfumato.privacy.account import ORDERS, Cost, shorten_costs
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.gaussian_costs import NO_COST, RESERVES, Costs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from sfumato.ledger.chain import Entry
    from sfumato.ledger.receipts.signing import SignedHead
    from sfumato.privacy.account import Allowance
    from sfumato.privacy.budget import Budget

MAX_NAME_LENGTH = 200
"""Most characters that the name of an account, or a key, may have."""

MAX_STEPS = 10**9
"""Most steps that one reservation may have."""

_RULE_OF_KEYS = f"a key is a text of 1 to {MAX_NAME_LENGTH} characters"
_RULE_OF_NEIGHBOURS = f"neighbours are named in 1 to {MAX_NAME_LENGTH} characters"
_DIGEST = re.compile("[0-9a-f]{64}")
_IDENTITY = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """A snapshot whose rows a question reads."""

    table: str
    identity: str
    """Random text that tells it from all others; empty if it is older than identities."""
    begun: str = ""
    """Identity of the snapshot of the table that was begun last, even if it was never finished."""

    def is_newest(self, noted: str) -> bool:
        """Return whether no other snapshot took its place, by the one that the ledger has noted."""
        # A lab that was killed between noting a new snapshot and using it goes on with the old one.
        return noted in (self.identity, self.begun or self.identity)


@dataclass(frozen=True, slots=True)
class Charge:
    """A priced question. The price comes from public facts, so anyone may be told it."""

    accounts: tuple[str, ...]
    """Every account that pays: "population:<name>", or for a quota "quota:<population>:<analyst>"."""
    cost: Cost
    request: str
    """SHA-256 of the canonical question with its snapshot and spend. Equal requests have equal answers."""
    about: dict[str, Any]
    """Public description for people who read the ledger. Nothing is decided by it."""
    key: str | None = None
    """Idempotency key: the caller's name for this attempt. Other payers may use the same text."""
    neighbours: str | None = None
    """What the neighbours differ in that the cost is proven for, such as "add-remove". An account holds one
    kind: the one it was opened for, else the first that a charge names."""
    reads: tuple[SnapshotRead, ...] = ()
    """Every snapshot that is read. Answers about other snapshots are not answers to this."""
    payers: str = field(init=False, repr=False, compare=False)
    """The accounts as one text, in which keys are looked up."""
    data: str = field(init=False, repr=False, compare=False)
    """Digest of `reads`, or an empty text if no snapshot has an identity."""
    bound_request: str = field(init=False, repr=False, compare=False)
    """The request together with the data, by which kept answers are looked up."""
    _body: tuple[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Sorted, so that the same payers give the same text, and so the same keys, in whatever order.
        object.__setattr__(self, "accounts", tuple(sorted(self.accounts)))
        _require(len(set(self.accounts)) == len(self.accounts) > 0, "a charge names its accounts, each once")
        for name in self.accounts:
            parse_account(name)
        _require(self.key is None or _is_name(self.key), _RULE_OF_KEYS)
        _require(is_relation(self.neighbours), _RULE_OF_NEIGHBOURS)
        require_utf8((self.key or "") + (self.neighbours or ""))
        _require(is_digest(self.request), "a request is a SHA-256 in hexadecimal")
        _require(is_cost(self.cost), "a cost is whole numbers, none below zero, one for each order")
        object.__setattr__(self, "payers", write_payers(self.accounts))
        data = hash_reads(tuple((read.table, read.identity) for read in self.reads)) if self.reads else ""
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "bound_request", bind_request(self.request, self.data))
        object.__setattr__(self, "_body", self._write_known_fields())

    def _write_known_fields(self) -> tuple[str, str]:
        """Return the parts of the body before and after the day and the mark.

        They are written here, before the ledger is locked, so that the lock is held for less time.
        """
        first = f'{{"about":{write_body(self.about)},"accounts":{self.payers}'
        key = "null" if self.key is None else canonical_json(self.key)
        data = f'"data":"{self.data}",' if self.data else ""
        # Left out where there are none, as older versions did.
        named = "" if self.neighbours is None else f'"neighbours":{canonical_json(self.neighbours)},'
        cost = write_cost(self.cost)
        return first, f'"cost":{cost},{data}"key":{key},{named}"request":"{self.request}"'

    def write_entry_body(self, at: str, by: str, steps: int | None = None) -> str:
        """Return the body of this charge's entry, as `write_body` would write all of its fields."""
        first, last = self._body
        run = "" if steps is None else f',"steps":{steps}'
        return f'{first},"at":"{at}","by":"{by}",{last}{run}}}'


@dataclass(frozen=True, slots=True)
class Charged:
    """A charge that is durable and not yet answered. Its holder may read data once."""

    seq: int
    head: str
    """Hash of the entry that allows the read: the charge's own, or that which began it again."""
    cost: Cost
    request: str


@dataclass(frozen=True, slots=True)
class Reserved(Charged):
    """Steps that are paid for and not yet begun. Data may be read once for each step that is drawn."""

    accounts: tuple[str, ...]
    step_cost: Cost
    """Cost of one step, while `cost` is that of all steps."""
    steps: int


@dataclass(frozen=True, slots=True)
class Released:
    """An answer that is kept. Its receipt is valid while the chain holds an entry with the hash `head`."""

    seq: int
    """Number of the charge's entry."""
    head: str
    """Hash of the release's entry, which seals the answer and everything before it."""
    cost: Cost
    """Cost of this call, which is nothing if the question was answered before."""
    answer: str
    replayed: bool
    entry: int = field(default=0, compare=False)
    """Number of the release's entry."""
    signed: SignedHead | None = field(default=None, compare=False)
    """Signed receipt for third parties, if the key and the `receipts` extra are available."""


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
    """One append-only chain of entries, from which totals and answers follow.

    A question is charged when its charge entry exists, and released when a release entry for it exists. A
    charge without a release is spent. A ledger that is found to be damaged refuses every call.
    """

    def open_account(self, account: str, budget: Budget, neighbours: str | None = None) -> None:
        """Fix a population's budget for ever, and the neighbours that it is counted for.

        Repeating the call with the same budget changes nothing.
        """

    def grant(self, account: str, budget: Budget) -> None:
        """Open a quota, or change its limits. What was spent stays spent."""

    def read_budget(self, account: str) -> Budget:
        """Return the limits in force."""

    def read_allowance(self, account: str) -> Allowance:
        """Return the limits in force, with the filters that were fixed when they were set."""

    def read_spent(self, account: str) -> Cost:
        """Return the total of all charges."""

    def list_accounts(self) -> tuple[str, ...]:
        """Return every account, sorted by name."""

    def charge(self, charge: Charge, *, take_over: bool = False) -> Charged | Released:
        """Charge all accounts or none, durably, before returning; or return the answer kept from before.

        A request that was released before is answered from the ledger at no cost, and so is a repeated key
        with the same request. If the charge of a repeated key has no answer yet, the call is refused at once
        (SF-L107) and charges nothing; a later call returns the answer once it is kept. A key belongs to the
        accounts that pay: under other accounts, the same text is another key. All accounts must exist even
        for a kept answer, since someone without an account may not see what others paid for.

        With `take_over` the open charge of a repeated key is returned instead of SF-L107. Use it only if
        every holder of the charge would keep the same answer: `release` takes the first and refuses the rest.
        """

    def release(self, charged: Charged, answer: str) -> Released:
        """Keep the answer durably, before anyone sees it. A reservation needs at least one step drawn."""

    def note_unread(self, charged: Charged) -> None:
        """Note durably that nothing was read for this charge, which its holder gives up.

        Call this only if no statement that reads rows was sent, and that depended on public facts alone. The
        next `charge` of the same payers, request, key and cost is then this charge again, for one of those
        who ask, and costs nothing more.
        """

    def reserve(self, charge: Charge, steps: int) -> Reserved | Released:
        """Charge for a run of many steps at once, where `charge.cost` is the cost of one step.

        Keys and repeated requests are treated as in `charge`.
        """

    def draw(self, reserved: Reserved, steps: int = 1) -> int:
        """Begin steps, durably, before data is read for them. Returns how many are begun so far."""

    def give_back(self, reserved: Reserved) -> Cost:
        """Undo the charge for all steps that were not drawn, and allow no more. Returns what was undone.

        Call this only if the run's end depends on nothing but releases and public facts. After a failure the
        whole reservation stays charged: where a run broke off can depend on the data, and so would the
        refund.
        """

    def find_charge(self, charge: Charge) -> Charged | None:
        """Return the open charge that these payers made for this request under this key, if there is one.

        Whoever holds it may answer it. So this is only for those who keep the one possible answer, durably,
        before they charge: after a crash they answer the charge that they had made.
        """

    def was_given_up(self, charge: Charge) -> bool:
        """Return whether such a charge was given up before anything was read: it begins again for nothing."""

    def find_release(self, request: str, data: str = "") -> Released | None:
        """Return the kept answer to a request about this data, if there is one.

        This is free and needs no account. `data` is a digest, as `hash_reads` makes it.
        """

    def claim(self, lab: str) -> None:
        """Let the ledger belong to the lab of this identity, for ever. That of another lab is refused."""

    def note_snapshot(
        self,
        table: str,
        identity: str,
        before: SnapshotRead | None,
    ) -> None:
        """Note the identity of a table's newest snapshot, durably, before anyone can ask about it.

        `before` is the newest that the caller knows. If another was noted meanwhile, this is refused. None
        allows any, for a table that is registered.
        """

    def require_newest(self, snapshot: SnapshotRead) -> None:
        """Refuse a snapshot if another one of its table was noted as the newest."""

    def read_entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of the chain that come after this number, from the first."""

    def verify(self) -> Verified:
        """Check the chain, every admission in it, and everything that was derived from it."""

    def export(self, to: TextIO) -> int:
        """Write the chain as JSON lines, checking each entry first. Returns how many were written."""

    def find_entry(self, head: str) -> int | None:
        """Return the number of the entry with this hash, if the chain has one."""

    def sign_receipt(self, entry: int | None = None) -> SignedHead:
        """Return a signed head for an outsider to keep, of this entry or of the newest."""

    def read_public_key(self) -> str:
        """Return the key that receipts are checked with, in hexadecimal."""

    def create_key(self) -> str:
        """Make a signing key if there is none, and return its public part.

        If it takes the place of a lost one, everyone who knew the old public key has to be told.
        """

    def read_identity(self) -> str:
        """Return random text that tells this ledger from others. It is no protection against forgery."""

    def close(self) -> None:
        """Close the database. Later calls are refused."""


def is_digest(value: object) -> bool:
    """Return whether this is a SHA-256 in lower-case hexadecimal."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_identity(identity: object) -> bool:
    """Return whether this is the random identity of a lab or a snapshot: 32 hexadecimal digits."""
    return isinstance(identity, str) and _IDENTITY.fullmatch(identity) is not None


def is_relation(neighbours: object) -> bool:
    """Return whether this can name a kind of neighbours, or says that none is named."""
    return neighbours is None or _is_name(neighbours)


def hash_reads(reads: tuple[tuple[str, str], ...]) -> str:
    """Return a digest of tables and their snapshots, or an empty text if no snapshot has an identity.

    The tables are in any order. Old snapshots have no identity, and their answers stay what they were.
    """
    if not any(identity for _, identity in reads):
        return ""
    return sha256(canonical_json(sorted(reads)).encode()).hexdigest()


def bind_request(request: str, data: str) -> str:
    """Return the text by which an answer is looked up: a request, and what data it is about."""
    return f"{request}:{data}" if data else request


def is_step_count(steps: object) -> bool:
    """Return whether a reservation may have this many steps."""
    return type(steps) is int and 0 < steps <= MAX_STEPS


def require_step_count(steps: int) -> None:
    """Refuse a number of steps that no reservation may have."""
    if not is_step_count(steps):
        rule = f"steps are a whole number from 1 to {MAX_STEPS}"
        raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)


def is_cost(cost: Cost) -> bool:
    """Return whether these are whole numbers, one for each order, that can only make a total grow."""
    # Exact types: a float could round, and a bool, which is an int, would be written as a word.
    pure = () if cost.pure is None else (cost.pure,)
    gaussian = NO_COST if cost.gaussian is None else cost.gaussian
    amounts = (*pure, *cost.renyi, cost.side, *gaussian)
    complete = len(cost.renyi) == len(ORDERS) and len(gaussian) == len(RESERVES)
    return complete and set(map(type, amounts)) == {int} and min(amounts) >= 0


@lru_cache(maxsize=4096)  # most questions have one of a few prices
def write_cost(cost: Cost) -> str:
    """Return the text that `canonical_json` writes, without inspecting the type of each number."""
    pure = "null" if cost.pure is None else cost.pure
    known = "" if cost.gaussian is None else f'"gaussian":{_write_costs(cost.gaussian)},'
    return f'{{{known}"pure":{pure},"renyi":[{",".join(map(str, cost.renyi))}],"side":{cost.side}}}'


def _write_costs(costs: Costs) -> str:
    written = shorten_costs(costs)
    return str(written) if isinstance(written, int) else f"[{','.join(map(str, written))}]"


@lru_cache(maxsize=4096)  # a replay asks this for every charge, and most are paid by the same few accounts
def are_sorted(accounts: tuple[str, ...]) -> bool:
    """Return whether there are accounts, sorted by name, each once."""
    return list(accounts) == sorted(set(accounts)) != []


def write_payers(accounts: Sequence[str]) -> str:
    """Return sorted accounts as one text. Different accounts give different texts."""
    return _write_payers(tuple(accounts))


@lru_cache(maxsize=4096)
def _write_payers(accounts: tuple[str, ...]) -> str:
    return canonical_json(list(accounts))


def parse_account(account: str) -> tuple[str, str | None]:
    """Return the population and, for a quota, the analyst. Ambiguous names are refused."""
    _require(_is_name(account), f"an account is a text of 1 to {MAX_NAME_LENGTH} characters")
    return _parse_account(account)


@lru_cache(maxsize=4096)
def _parse_account(account: str) -> tuple[str, str | None]:
    require_utf8(account)
    # With a colon in a name, the quota of "b" on "p:a" would be that of "a:b" on "p".
    match account.split(":"):
        case ["population", population] if population:
            return population, None
        case ["quota", population, analyst] if population and analyst:
            return population, analyst
    raise UsageError(
        "SF-C113",
        "This is not the name of an account.",
        rule="population:<name> or quota:<population>:<analyst>, with no other colon",
    )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)
