"""Brings SQLite and the mark to the same end, by adding to either what only the other holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.ledger import tables
from sfumato.ledger.chain import GENESIS, Entry, read_body
from sfumato.ledger.sqlite.mark import MarkedBatch, copied_error, shorter_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.ledger.sqlite.mark import Mark
    from sfumato.ledger.sqlite.witness import End

MOVE_END = "UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ?"
ADD_ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?)"
KEEP_ANSWER = "INSERT INTO answers VALUES (?, ?, ?)"


def read_end(db: Any) -> End:
    """Return the number and hash of SQLite's newest entry."""
    row = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, GENESIS) if row is None else (row[0], row[1])


def settle_with_mark(db: Any, mark: Mark) -> bool:
    """Compare the two ends and add what is missing. Returns whether something was written to SQLite."""
    found, marked = read_end(db), mark.end
    if found[0] < marked[0]:
        mark.write_again()
        _redo_entries(db, found, mark)
    elif marked[0] and not tables.has_entry(db, *marked):
        raise shorter_error(marked, found[0])
    elif found[0] > marked[0]:
        # A damaged record, or a process of an older version, has left the mark behind.
        mark.append(_read_batch(db, marked, found))
    mark.settle()
    return found[0] < marked[0]


def require_witness(db: Any, mark: Mark) -> None:
    """Refuse a ledger that lacks an entry that was seen here, or whose witness is not its own."""
    require_witnessed(db, mark)
    found = mark.witness.find(mark.noted)
    if found is None:
        raise copied_error()
    if not mark.witness.is_at(mark.end, mark.noted):
        mark.witness.move(found, mark.end, mark.noted)
        mark.witness.remove_others(mark.end)


def require_witnessed(db: Any, mark: Mark) -> None:
    """Refuse a ledger that lacks an entry that was seen here, as after older files were copied over it."""
    lost = mark.witness.find_lost(db)
    if lost is not None:
        raise shorter_error(lost, read_end(db)[0])


def _redo_entries(db: Any, found: End, mark: Mark) -> None:
    """Write the entries that SQLite has lost, if the mark holds all of them and they continue the chain."""
    batches = mark.list_batches()
    lost = [entry for batch in batches for entry in _list_entries(batch) if entry.seq > found[0]]
    ends = [found, *((entry.seq, entry.hash) for entry in lost)]
    follows = all((entry.seq - 1, entry.prev) == end for entry, end in zip(lost, ends, strict=False))
    if not follows or ends[-1] != mark.end:
        raise shorter_error(mark.end, found[0])
    charges = {read_body(entry.body)["charge"] for entry in lost if entry.kind == "release"}
    answers = [answer for batch in batches for answer in batch.answers if answer[0] in charges]
    db.execute(MOVE_END, (*mark.end, *found))
    db.executemany(ADD_ENTRY, [(each.seq, each.kind, each.body, each.prev, each.hash) for each in lost])
    db.executemany(KEEP_ANSWER, answers)


def _list_entries(batch: MarkedBatch) -> Iterable[Entry]:
    seq, head = batch.start
    for kind, body in batch.entries:
        entry = Entry.make_next(seq, head, kind, body)  # type: ignore[arg-type]
        yield entry
        seq, head = entry.seq, entry.hash


def _read_batch(db: Any, start: End, end: End) -> MarkedBatch:
    """Return what SQLite holds after the entry `start`."""
    entries = db.execute("SELECT kind, body FROM entries WHERE seq > ? ORDER BY seq", start[:1]).fetchall()
    charges = [read_body(body)["charge"] for kind, body in entries if kind == "release"]
    query = "SELECT charge, nonce, answer FROM answers WHERE charge = ?"
    answers = [row for charge in charges for row in db.execute(query, (charge,)).fetchall()]
    return MarkedBatch(start, end, entries, answers)
