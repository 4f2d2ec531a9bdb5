"""Brings SQLite and the mark to the same end, by adding to either what only the other holds."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sfumato.ledger import tables
from sfumato.ledger.chain import GENESIS, Entry, read_body
from sfumato.ledger.failures import require_agreement
from sfumato.ledger.sqlite.mark import MarkedBatch, copied_error, shorter_error

if TYPE_CHECKING:
    from sfumato.ledger.sqlite.mark import Mark
    from sfumato.ledger.sqlite.witness import End

MOVE_END = "UPDATE ledger SET entries = ?, head = ? WHERE entries = ? AND head = ?"
ADD_ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?)"
KEEP_ANSWER = "INSERT INTO answers VALUES (?, ?, ?)"
_ENTRY_ROW = attrgetter("seq", "kind", "body", "prev", "hash")


def read_end(db: Any) -> End:
    """Return the number and hash of SQLite's newest entry."""
    row = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, GENESIS) if row is None else (row[0], row[1])


def settle_with_mark(db: Any, mark: Mark) -> None:
    """Compare the two ends and add what is missing to either. The caller begins and commits."""
    found, marked = read_end(db), mark.end
    if found[0] < marked[0]:
        _add_entries(db, found, mark)
    elif marked[0] and not tables.has_entry(db, *marked):
        raise shorter_error(marked, found[0])
    elif found[0] > marked[0]:
        # A damaged record, or a process of an older version, has left the mark behind.
        mark.append(_read_batch(db, marked, found))


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


def _add_entries(db: Any, found: End, mark: Mark) -> None:
    """Write the entries that SQLite lacks, if the mark holds all of them and they continue the chain."""
    batches, end = mark.list_batches(), found
    lacking = []
    for batch in batches:
        for entry in batch.entries:
            if entry.seq == end[0] + 1 and entry.prev == end[1]:
                lacking.append(entry)
                end = entry.seq, entry.hash
    if end != mark.end:
        raise shorter_error(mark.end, found[0])
    charges = {read_body(entry.body)["charge"] for entry in lacking if entry.kind == "release"}
    answers = {answer[0]: answer for batch in batches for answer in batch.answers if answer[0] in charges}
    moved = db.execute(MOVE_END, (*end, *found)).rowcount == 1
    require_agreement(moved, "where the chain ends")
    db.executemany(ADD_ENTRY, map(_ENTRY_ROW, lacking))
    db.executemany(KEEP_ANSWER, answers.values())


def _read_batch(db: Any, start: End, end: End) -> MarkedBatch:
    """Return what SQLite holds after the entry `start`."""
    rows = db.execute("SELECT seq, kind, body, prev, hash FROM entries WHERE seq > ? ORDER BY seq", start[:1])
    entries = [Entry(*row) for row in rows.fetchall()]
    charges = [read_body(entry.body)["charge"] for entry in entries if entry.kind == "release"]
    query = "SELECT charge, nonce, answer FROM answers WHERE charge = ?"
    answers = [row for charge in charges for row in db.execute(query, (charge,)).fetchall()]
    return MarkedBatch(start, end, entries, answers)
