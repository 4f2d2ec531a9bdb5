"""The tables, in SQL that every database of ours reads: the chain, and four tables that follow from it.

Many jobs share a transaction. What all of them will look up is asked at once, and what all of them wrote is
written at once, so that a server far away is waited for twice and not for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.commitment import commitment
from sfumato.ledger.contract import Released, is_digest, written
from sfumato.ledger.entry import GENESIS, Entry, read
from sfumato.ledger.verify import Account, Books, account, replay
from sfumato.privacy.account import NOTHING, Cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.ledger.contract import Charged

_ANSWER = (
    "SELECT c.request, a.charge, e.hash, a.answer, a.seq FROM answers a JOIN entries e ON e.seq = a.seq"
    " JOIN charges c ON c.seq = a.charge"
)
_ACCOUNT = (
    "SELECT a.account, e.seq, e.kind, e.body, a.spent FROM accounts a JOIN entries e ON e.seq = a.terms"
)
_KEYED = (
    "SELECT c.payers, c.key, c.request, c.seq, e.hash, a.answer, a.seq FROM charges c"
    " LEFT JOIN answers a ON a.charge = c.seq LEFT JOIN entries e ON e.seq = a.seq"
)
_STANDING = (
    "SELECT c.seq, c.request, e.hash, e.body, a.seq, r.steps, r.drawn, r.returned FROM charges c"
    " JOIN entries e ON e.seq = c.seq LEFT JOIN answers a ON a.charge = c.seq"
    " LEFT JOIN reservations r ON r.charge = c.seq"
)
_ENDS = "SELECT seq, hash FROM entries WHERE seq IN (?, (SELECT max(seq) FROM entries)) ORDER BY seq"


class Connection(Protocol):
    """What is used of a database's connection: sqlite3's has it, and others are dressed alike."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Keyed:
    """The charge that a key was used for, and its answer if it has one."""

    seq: int
    request: str
    kept: Released | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What became of a charge so far."""

    request: str
    head: str
    body: str
    answered: bool
    steps: int | None
    """Of a reservation; none where the charge is no reservation."""
    drawn: int
    returned: int

    @property
    def open(self) -> int:
        """Steps that can still be drawn or returned."""
        return 0 if self.answered else (self.steps or 0) - self.drawn - self.returned


@dataclass(slots=True)
class Wanted:
    """All that some jobs will look up."""

    accounts: dict[str, None] = field(default_factory=dict)
    keys: dict[tuple[str, str], None] = field(default_factory=dict)
    """By payers."""
    requests: dict[str, None] = field(default_factory=dict)
    charges: dict[int, Charged] = field(default_factory=dict)
    """As whoever asks about them holds them."""

    def add(self, other: Wanted) -> None:
        self.accounts |= other.accounts
        self.keys |= other.keys
        self.requests |= other.requests
        self.charges |= other.charges


@dataclass(slots=True)
class Known:
    """What was found of it; jobs put here what they write, so that those after them see it."""

    head: tuple[int, str]
    continued: bool
    """Whether the chain still has the entry that was asked for."""
    accounts: dict[str, Account]
    keyed: dict[tuple[str, str], Keyed]
    kept: dict[str, Released]
    """The first answer kept to each request, so that the same question has one answer for ever."""
    charges: dict[int, Standing]


# ---- reading -----------------------------------------------------------------------------------------------


class Asked:
    """Questions that were put and not yet read: a server answers all of them in one go."""

    def __init__(self, db: Connection, wanted: Wanted, seen: tuple[int, str]) -> None:
        self._seen = seen
        self._ends = db.execute(_ENDS, (seen[0],))
        self._accounts = _among(db, f"{_ACCOUNT} WHERE a.account IN", wanted.accounts)
        self._keyed = _keyed(db, wanted.keys)
        self._kept = _among(db, f"{_ANSWER} WHERE c.request IN", wanted.requests, "ORDER BY a.seq DESC")
        self._charges = _among(db, f"{_STANDING} WHERE c.seq IN", wanted.charges)

    def read(self) -> Known:
        ends = {0: GENESIS, **{int(seq): str(head) for seq, head in self._ends}}
        newest = max(ends)
        return Known(
            (newest, ends[newest]),
            ends.get(self._seen[0]) == self._seen[1],
            {row[0]: _account(row[1:]) for row in self._accounts},
            {(row[0], row[1]): Keyed(row[3], row[2], _released(row[3:])) for row in self._keyed},
            {row[0]: _kept(row[1:]) for row in self._kept},  # the first comes last and stays
            {
                seq: Standing(request, head, body, answered is not None, steps, drawn or 0, returned or 0)
                for seq, request, head, body, answered, steps, drawn, returned in self._charges
            },
        )


def _among(db: Connection, query: str, values: Iterable[Any], ending: str = "") -> Any:
    listed = tuple(values)
    return db.execute(f"{query} {marks(len(listed))} {ending}", listed) if listed else ()


def _keyed(db: Connection, keys: Iterable[tuple[str, str]]) -> Any:
    """Perhaps some more than were asked for: each index leads by one of the two."""
    payers, names = tuple({payer: None for payer, _ in keys}), tuple({name: None for _, name in keys})
    if not payers:
        return ()
    query = f"{_KEYED} WHERE c.payers IN {marks(len(payers))} AND c.key IN {marks(len(names))}"
    return db.execute(query, (*payers, *names))


@lru_cache(maxsize=1024)
def marks(count: int) -> str:
    return f"({', '.join('?' * count)})"


def accounts(db: Connection, names: Iterable[str]) -> dict[str, Account]:
    """Those that are there, their limits read from the chain itself."""
    return {row[0]: _account(row[1:]) for row in _among(db, f"{_ACCOUNT} WHERE a.account IN", names)}


def _account(row: Sequence[Any]) -> Account:
    seq, kind, body, spent = row
    try:
        return account(seq, kind, read(body), Cost.from_dict(read(spent)))
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise _disagreement("the totals of the accounts") from error


def names(db: Connection) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT account FROM accounts ORDER BY account"))


def answer_to_request(db: Connection, request: str) -> Released | None:
    row = db.execute(f"{_ANSWER} WHERE c.request = ? ORDER BY a.seq LIMIT 1", (request,)).fetchone()
    return None if row is None else _kept(row[1:])


def answer_to_charge(db: Connection, charge: int) -> Released | None:
    row = db.execute(f"{_ANSWER} WHERE a.charge = ?", (charge,)).fetchone()
    return None if row is None else _kept(row[1:])


def holds(db: Connection, seq: int, head: str) -> bool:
    """Whether the chain has this entry."""
    row = db.execute("SELECT 1 FROM entries WHERE seq = ? AND hash = ?", (seq, head)).fetchone()
    return row is not None


def numbered(db: Connection, head: str) -> int | None:
    """The entry with this hash. Rarely asked, so no index is kept for it."""
    row = db.execute("SELECT seq FROM entries WHERE hash = ?", (head,)).fetchone()
    return None if row is None else int(row[0])


def sealed(db: Connection, seq: int | None) -> tuple[int, str]:
    """The number and hash of an entry, or of the newest."""
    which = "ORDER BY seq DESC LIMIT 1" if seq is None else "WHERE seq = ?"
    query = f"SELECT seq, hash FROM entries {which}"  # noqa: S608 - one of two texts
    row = db.execute(query, () if seq is None else (seq,)).fetchone()
    if row is None:
        raise UsageError("SF-L309", "The ledger has no such entry.", try_="sfumato ledger list")
    return int(row[0]), str(row[1])


def page(db: Connection, after: int, size: int) -> list[Entry]:
    query = "SELECT seq, kind, body, prev, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
    return [Entry(*row) for row in db.execute(query, (after, size))]


def identity(db: Connection) -> str:
    """Drawn when the ledger was made, and not part of the chain: it tells ledgers apart, nothing more."""
    return str(db.execute("SELECT identity FROM ledger").fetchone()[0])


def _released(row: Sequence[Any]) -> Released | None:
    return None if row[2] is None else _kept(row)


def _kept(row: Sequence[Any]) -> Released:
    charge, head, answer, entry = row
    return Released(charge, head, NOTHING, answer, replayed=True, entry=entry)


# ---- writing -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Pending:
    """Rows that a transaction will write; of accounts and reservations only the newest state."""

    entries: list[Entry] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    charges: list[tuple[int, str, str, str | None]] = field(default_factory=list)
    answers: list[tuple[int, int, str, str]] = field(default_factory=list)
    reservations: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def write(self, db: Connection, condition: str = "") -> None:
        """All rows, or none where a condition is given and does not hold."""
        into = partial(_insert, db, condition)
        into("entries", [(each.seq, each.kind, each.body, each.prev, each.hash) for each in self.entries])
        totals = [(name, each.terms, written(each.spent)) for name, each in self.accounts.items()]
        into("accounts", totals, "(account) DO UPDATE SET terms = excluded.terms, spent = excluded.spent")
        into("charges", self.charges)
        into("answers", self.answers)
        runs = [(charge, *state) for charge, state in self.reservations.items()]
        into(
            "reservations",
            runs,
            "(charge) DO UPDATE SET drawn = excluded.drawn, returned = excluded.returned",
        )


def _insert(
    db: Connection, condition: str, table: str, rows: Sequence[tuple[Any, ...]], conflict: str = ""
) -> None:
    if not rows:
        return
    given = f"VALUES {', '.join([marks(len(rows[0]))] * len(rows))}"
    source = f"SELECT * FROM ({given}) AS given {condition}" if condition else given  # noqa: S608 - no values
    ending = f"ON CONFLICT {conflict}" if conflict else ""
    db.execute(f"INSERT INTO {table} {source} {ending}", [value for row in rows for value in row])


# ---- checking ----------------------------------------------------------------------------------------------


def check(db: Connection) -> Books:
    """Replay the chain and hold every other table against it."""
    entries = db.execute("SELECT seq, kind, body, prev, hash FROM entries ORDER BY seq")
    books = replay(Entry(*row) for row in entries)
    totals = {name: (account.terms, written(account.spent)) for name, account in books.accounts.items()}
    require(_by_first(db.execute("SELECT * FROM accounts")) == totals, "the totals of the accounts")
    require(_by_first(db.execute("SELECT * FROM charges")) == books.charges, "the requests and keys")
    runs = {charge: run.state for charge, run in books.runs.items()}
    require(_by_first(db.execute("SELECT * FROM reservations")) == runs, "the reservations")
    answers = db.execute("SELECT charge, seq, nonce, answer FROM answers")
    kept = {charge: (seq, _committed(nonce, answer)) for charge, seq, nonce, answer in answers}
    require(kept == books.releases, "the kept answers")
    return books


def _by_first(rows: Iterable[tuple[Any, ...]]) -> dict[Any, tuple[Any, ...]]:
    return {first: tuple(rest) for first, *rest in rows}


def _committed(nonce: str, answer: str) -> str | None:
    """With a nonce of another shape, the answer's first lines could be moved into it unnoticed."""
    return commitment(nonce, answer) if is_digest(nonce) else None


def require(agrees: bool, what: str) -> None:
    if not agrees:
        raise _disagreement(what)


def _disagreement(what: str) -> LedgerError:
    return LedgerError(
        "SF-L102",
        "The ledger's tables do not agree with its chain, so nothing is answered.",
        what=what,
        try_="put back an untouched copy of the ledger, and check it against a receipt",
    )
