"""The tables, in SQL that every database of ours reads: the chain, and three tables that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.commitment import commitment
from sfumato.ledger.contract import Released, is_digest
from sfumato.ledger.entry import GENESIS, Entry, read
from sfumato.ledger.verify import Account, Books, account, replay
from sfumato.privacy.account import NOTHING, Cost
from sfumato.privacy.exact import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sfumato.ledger.contract import Charge, Charged

_ANSWER = (
    "SELECT a.charge, e.hash, a.answer FROM answers a JOIN entries e ON e.seq = a.seq"
    " JOIN charges c ON c.seq = a.charge"
)
_KEPT = f"{_ANSWER} WHERE c.request = ? ORDER BY a.seq LIMIT 1"
_KEYED = "SELECT seq, request FROM charges WHERE payers = ? AND key = ?"
_LOAD = (
    "SELECT e.seq, e.kind, e.body, a.spent FROM accounts a JOIN entries e ON e.seq = a.terms"
    " WHERE a.account = ?"
)


class Connection(Protocol):
    """What is used of a database's connection: sqlite3's has it, and others are dressed alike."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any: ...

    def executemany(self, sql: str, parameters: Sequence[Any], /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Keyed:
    """The charge that a key was used for."""

    seq: int
    request: str


# ---- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Looked:
    """All that a charge is decided by."""

    accounts: dict[str, Account | None]
    keyed: Keyed | None
    kept: Released | None
    """The answer to the same request, if there is one."""


def look(db: Connection, charge: Charge) -> Looked:
    """Every question is put before the first is read: a server far away is waited for once."""
    accounts = {name: db.execute(_LOAD, (name,)) for name in charge.accounts}
    used = db.execute(_KEYED, (charge.payers, charge.key))  # equal to nothing, where there is no key
    kept = db.execute(_KEPT, (charge.request,))
    return Looked(
        {name: _account(rows.fetchone()) for name, rows in accounts.items()},
        _keyed(used.fetchone()),
        _kept(kept.fetchone()),
    )


def load(db: Connection, name: str) -> Account | None:
    """An account, its limits read from the chain itself."""
    return _account(db.execute(_LOAD, (name,)).fetchone())


def _account(row: tuple[int, str, str, str] | None) -> Account | None:
    if row is None:
        return None
    seq, kind, body, spent = row
    try:
        return account(seq, kind, read(body), Cost.from_dict(read(spent)))
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise _disagreement("the totals of the accounts") from error


def names(db: Connection) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT account FROM accounts ORDER BY account"))


def answer_to_request(db: Connection, request: str) -> Released | None:
    """The first answer kept, so that the same question has one answer for ever."""
    return _kept(db.execute(_KEPT, (request,)).fetchone())


def answer_to_charge(db: Connection, charge: int) -> Released | None:
    return _kept(db.execute(f"{_ANSWER} WHERE a.charge = ?", (charge,)).fetchone())


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


def head(db: Connection) -> tuple[int, str]:
    """The newest entry's number and hash. Others write too, so it is asked in each transaction."""
    row = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, GENESIS) if row is None else (int(row[0]), str(row[1]))


def _keyed(row: tuple[int, str] | None) -> Keyed | None:
    return None if row is None else Keyed(*row)


def _kept(row: tuple[int, str, str] | None) -> Released | None:
    if row is None:
        return None
    charge, head, answer = row
    return Released(charge, head, NOTHING, answer, replayed=True)


# ---- writing -----------------------------------------------------------------------------------------------


def append(db: Connection, entry: Entry) -> None:
    row = (entry.seq, entry.kind, entry.body, entry.prev, entry.hash)
    db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)


def set_terms(db: Connection, entry: Entry, name: str) -> None:
    """Open the account or give it new limits; what was spent stays."""
    statement = (
        "INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET terms = excluded.terms"
    )
    db.execute(statement, (name, entry.seq, _text(NOTHING)))


def add_charge(db: Connection, entry: Entry, charge: Charge, paid: dict[str, Account]) -> None:
    row = (entry.seq, charge.request, charge.payers, charge.key)
    db.execute("INSERT INTO charges VALUES (?, ?, ?, ?)", row)
    totals = [(_text(account.spent), name) for name, account in paid.items()]
    db.executemany("UPDATE accounts SET spent = ? WHERE account = ?", totals)


def add_answer(db: Connection, entry: Entry, charged: Charged, nonce: str, answer: str) -> None:
    db.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", (charged.seq, entry.seq, nonce, answer))


def _text(cost: Cost) -> str:
    return canonical_json(cost.to_dict())


# ---- checking ----------------------------------------------------------------------------------------------


def check(db: Connection) -> Books:
    """Replay the chain and hold every other table against it."""
    entries = db.execute("SELECT seq, kind, body, prev, hash FROM entries ORDER BY seq")
    books = replay(Entry(*row) for row in entries)
    totals = {name: (account.terms, _text(account.spent)) for name, account in books.accounts.items()}
    require(_by_first(db.execute("SELECT * FROM accounts")) == totals, "the totals of the accounts")
    require(_by_first(db.execute("SELECT * FROM charges")) == books.charges, "the requests and keys")
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
