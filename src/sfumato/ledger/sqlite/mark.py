"""The mark beside a SQLite ledger: where its chain ends, and the newest entries in full.

Every commit is written to this file, and that write is all that a charge waits for. SQLite gets the entries
later, many at a time. A ledger that ends before its mark gets the missing entries from here, or is refused:
SQLite takes a damaged or missing log for one that ended earlier, and would forget the charges in it.

The file has two equal headers on pages of their own, then records. A header names the entry up to which
SQLite's main file holds everything, which file the witness is, and a salt; records with another salt are
remains of an earlier time. Each commit is one record, written twice at once, so that no damaged bit costs a
charge. Only the last record can be torn, and then nobody was told of its commit.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from json.encoder import encode_basestring
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError, UsageError
from sfumato.files.durable import sync_path
from sfumato.ledger.chain import GENESIS, Entry
from sfumato.ledger.failures import (
    busy_error,
    full_error,
    require_agreement,
    unconfirmed_error,
    unreadable_error,
)
from sfumato.ledger.sqlite.files import identify_birth, identify_log
from sfumato.ledger.sqlite.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.ledger.sqlite.files import Identity
    from sfumato.ledger.sqlite.witness import End

LIMIT = 1 << 22
"""Bytes after which the mark begins anew, once SQLite's main file holds everything.

Chosen with `benchmarks/ledger.py`: some 2000 single charges. No privacy depends on it.
"""

_ROOM = 1 << 16
"""Bytes by which the file grows: syncing a file that has grown takes twice as long. No privacy depends on
it."""

_PAGE = 4096
_RECORDS = 2 * _PAGE
"""Where the first record is."""
_SALT_BYTES, _DIGEST_BYTES = 16, 32
_PREFIX_BYTES = _SALT_BYTES + _DIGEST_BYTES + 8
"""A record begins with salt, digest and length."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_POLL_SECONDS = 0.002
"""Pause between attempts to lock the file, in seconds.

Even pauses give all waiting processes the same chance. SQLite's own pauses grow, and starve the unlucky: see
docs/decisions/0003-ledger.md. No privacy depends on it.
"""


@dataclass(frozen=True, slots=True)
class MarkedBatch:
    """What one commit wrote."""

    start: End
    end: End
    entries: Sequence[Entry] = ()
    answers: Sequence[Sequence[Any]] = ()
    """Charge, nonce and answer of each release."""


class Mark:
    """The mark of one ledger. Whoever appends to it holds its lock, and is the ledger's only writer."""

    end: End
    """Where the chain ends, as far as this process has read."""
    _offset: int
    """Where the next record goes."""
    _is_known: bool
    """Whether no valid record can follow that begins elsewhere than at `_offset`."""
    _unsettled: list[MarkedBatch | bytes]
    """What SQLite may lack, oldest first: records of others are decoded once they are needed."""

    def __init__(self, ledger: str) -> None:
        self.path = f"{ledger}.mark"
        self.witness = Witness(ledger)
        self._bytes_path = os.fsencode(self.path)
        self._file: int | None = None
        self._identity: Identity | None = None
        self._is_locked = False
        self._forget()

    # ---- locking -------------------------------------------------------------------------------------------

    def try_lock(self) -> bool:
        """Become the only writer among all processes, unless another one is."""
        try:
            fcntl.flock(self._file or self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_locked = True
        return True

    def lock(self, timeout: float) -> bool:
        """Become the only writer among all processes. Returns whether this call was needed for that."""
        if self._is_locked:
            return False
        _lock(self._file or self._open(), fcntl.LOCK_EX, timeout)
        self._is_locked = True
        return True

    def unlock(self) -> None:
        """Let others write, if they could not."""
        if self._is_locked and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._is_locked = False

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Be the only writer among all processes for a while."""
        is_mine = self.lock(timeout)
        try:
            yield
        finally:
            if is_mine:
                self.unlock()

    @contextmanager
    def sharing(self, timeout: float) -> Iterator[None]:
        """Keep all writers out, with no right to write. A ledger without a mark has no such lock."""
        with suppress(FileNotFoundError):
            self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            _lock(self._file, fcntl.LOCK_SH, timeout)
        yield

    def is_in_place(self) -> bool:
        """Return whether the file that is open is the one at the path."""
        return self._identity is None or identify_log(self._bytes_path) == self._identity

    def close(self) -> None:
        """Close the file. The next use opens it and reads all of it again."""
        if self._file is not None:
            os.close(self._file)  # which also gives up its lock
        self._file, self._is_locked = None, False
        self._forget()

    def __del__(self) -> None:
        # A ledger that is let go of is seldom closed, and a process may open many.
        if self._file is not None:
            os.close(self._file)

    # ---- reading -------------------------------------------------------------------------------------------

    def read(self, *, copied: bool = False) -> End:
        """Return where the chain ends, with everything that others have written.

        Who does not hold the lock may find what is not durable yet: see `sync`. It gets no further than the
        first damaged record. A mark that was copied from
        elsewhere is refused unless `copied` allows it.
        """
        file = self._file or self._open()
        # The first header is always the one that changes first, and its digest with it.
        if os.pread(file, _DIGEST_BYTES, 0) != self._digest:
            self._read_header(os.pread(file, _RECORDS, 0), copied)
        while (is_next := os.pread(file, _SALT_BYTES, self._offset) == self._salt) and self._read_record(
            file
        ):
            pass
        # Damage is skipped under the lock alone: beside a writer, a record that is missing may just not have
        # been there yet when the one after it already was.
        if self._is_locked and (is_next or not self._is_known):
            self._scan_records(file)
        last = self._unsettled[-1] if self._unsettled else None
        if isinstance(last, bytes):
            self._unsettled[-1] = newest = _decode(last)
            self.end = newest.end
        return self.end

    def is_newest(self) -> bool:
        """Return whether nobody has written since this process read or wrote last."""
        file = self._file
        return (
            file is not None
            and self._is_known
            and os.pread(file, _DIGEST_BYTES, 0) == self._digest
            and os.pread(file, _SALT_BYTES, self._offset) != self._salt
        )

    def sync(self) -> None:
        """Return once everything that was read is durable, whoever wrote it."""
        _sync_durably(self._file or self._open())

    def list_batches(self) -> list[MarkedBatch]:
        """Return everything that SQLite may lack, oldest first."""
        batches = [each if isinstance(each, MarkedBatch) else _decode(each) for each in self._unsettled]
        self._unsettled[:] = batches
        return batches

    def list_newer(self, seq: int) -> list[MarkedBatch]:
        """Return those of the batches that SQLite may lack which end after this entry."""
        return [] if seq >= self.end[0] else [each for each in self.list_batches() if each.end[0] > seq]

    @property
    def unsettled(self) -> int:
        """Number of commits that SQLite may lack."""
        return len(self._unsettled)

    def settle(self) -> None:
        """Note that SQLite holds everything that was read or appended so far."""
        self._unsettled.clear()

    # ---- writing -------------------------------------------------------------------------------------------

    def append(self, batch: MarkedBatch) -> None:
        """Write a commit. Once this returns, it survives a crash."""
        file = self._file
        if file is None:  # closed for a fork within the transaction
            raise unreadable_error()
        require_agreement(batch.start == self.end, "where its mark says that the chain ends")
        record = 2 * _encode(self._salt, batch)
        end = self._offset + len(record)
        if end > self._size:
            self._grow(file, end)
        _write(file, record, self._offset)
        try:
            _sync_durably(file)
        except LedgerError:
            # The system forgets pages that it could not write, while others still read them and go on from
            # there. So they are written once more.
            with suppress(LedgerError):
                _write(file, record, self._offset)
                _sync_durably(file)
            raise
        self._unsettled.append(batch)
        self._offset, self.end = end, batch.end

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin anew."""
        return self._offset >= self._enough

    def postpone(self) -> None:
        """Go on with a full mark for a while, since SQLite's main file cannot be brought up to date now."""
        self._enough = self._offset + LIMIT

    def begin_anew(self, end: End, *, adopt: bool = True) -> None:
        """Forget all records. SQLite's main file must hold everything up to `end`, durably.

        `adopt` makes whatever lies here the ledger's own, with a new witness.
        """
        file, salt = self._open(), secrets.token_bytes(_SALT_BYTES)
        noted = self.witness.create(end) if adopt else self.noted
        fields = {"salt": salt.hex(), "end": end, "file": identify_birth(self.path), "witness": noted}
        header = _encode_header(fields)
        # One after the other: while the first is being written, the second still speaks for the old records.
        for offset in (0, _PAGE):
            _write(file, header, offset)
            _sync_durably(file)
        if _measure(file) > 2 * LIMIT + _ROOM:
            os.truncate(file, _RECORDS + LIMIT)
        if adopt:  # only now: whoever is killed before leaves a ledger that can be adopted again
            self.witness.remove_others(end)
            sync_path(Path(self.path).parent)
        self._forget()
        self.read()

    def create(self) -> None:
        """Create the file if it is missing. It needs a beginning then."""
        self.close()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._identity = os.fstat(self._file)[1:3]
        except OSError as error:
            raise unreadable_error() from error

    def is_blank(self) -> bool:
        """Return whether nothing readable was ever written to the file."""
        return _find_header(os.pread(self._open(), _RECORDS, 0)) is None

    # ---- steps of the calls above --------------------------------------------------------------------------

    def _forget(self) -> None:
        self._digest: bytes | None = None
        self._salt = b""
        self._unsettled = []
        self._taken = b""
        self._offset = self._size = _RECORDS
        self._enough = _RECORDS + LIMIT
        self._is_known = False
        self.end = (0, "")
        self.noted: list[int] = []

    def _open(self) -> int:
        if self._file is None:
            try:
                self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
                self._identity = os.fstat(self._file)[1:3]
            except FileNotFoundError:
                raise missing_mark_error() from None
            except OSError as error:
                raise unreadable_error() from error
        return self._file

    def _read_header(self, headers: bytes, copied: bool) -> None:
        header = _find_header(headers)
        if header is None:
            raise missing_mark_error()
        if not copied and tuple(header["file"]) != identify_birth(self.path):
            raise copied_error()
        self._forget()
        # While the first is being written, the second speaks, and the next call looks again.
        self._digest = headers[:_DIGEST_BYTES] if _find_header(headers[:_PAGE]) else None
        self._salt = bytes.fromhex(header["salt"])
        self.end = header["end"][0], header["end"][1]
        self.noted = header["witness"]

    def _grow(self, file: int, end: int) -> None:
        """Let the file reach beyond `end`. Without the record: on a full disk, nothing of it may be there."""
        self._size = _measure(file)  # others may have let it grow
        if end > self._size:
            _write(file, bytes(end - self._size + _ROOM), self._size)
            self._size = end + _ROOM

    def _read_record(self, file: int) -> bool:
        """Take in the next record. Returns False if it is damaged, or still being written."""
        length = int.from_bytes(os.pread(file, 8, self._offset + _PREFIX_BYTES - 8), "big")
        data = os.pread(file, _PREFIX_BYTES + min(length, _measure(file)), self._offset)
        content = _find_content(self._salt, data, 0)
        if content is not None:
            self._take(content, self._offset)
        return content is not None

    def _scan_records(self, file: int) -> None:
        """Take in all valid records. A damaged one hides none of those after it."""
        self._size = _measure(file)
        data, base, start = os.pread(file, self._size, self._offset), self._offset, 0
        while (start := data.find(self._salt, start)) >= 0:
            content = _find_content(self._salt, data, start)
            if content is None:
                start += 1
            else:
                self._take(content, base + start)
                start = self._offset - base
        self._is_known = True

    def _take(self, content: bytes, offset: int) -> None:
        self._offset = offset + _PREFIX_BYTES + len(content)
        if content != self._taken:  # else it is the second copy
            self._unsettled.append(content)
            self._taken = content


def begin_first_mark(ledger: str) -> None:
    """Begin the mark of a ledger that is being created. The mark of an earlier ledger is refused."""
    mark = Mark(os.path.realpath(ledger))
    mark.create()
    with closing(mark), mark.locked(0):
        if not mark.is_blank() and mark.read()[0]:
            raise UsageError(
                "SF-L304",
                "There is the mark of an earlier ledger where the ledger should go.",
                try_="put that ledger back, or choose another place",
            )
        mark.begin_anew((0, GENESIS))


def begin_mark_at(ledger: Path, end: End) -> None:
    """Begin the mark of a ledger whose main file was just put in its place, and that nobody has open."""
    mark = Mark(os.path.realpath(ledger))
    mark.create()
    with closing(mark), mark.locked(0):
        mark.begin_anew(end)


def _find_header(headers: bytes) -> dict[str, Any] | None:
    """Return the newest valid header. The first is written before the second."""
    for page in (headers[:_PAGE], headers[_PAGE:]):
        digest, content = page[:_DIGEST_BYTES], page[_DIGEST_BYTES:].rstrip(b"\0")
        if content and digest == _digest(b"", content):
            found: dict[str, Any] = json.loads(content)
            return found
    return None


def _encode_header(fields: dict[str, Any]) -> bytes:
    content = json.dumps(fields).encode()
    return (_digest(b"", content) + content).ljust(_PAGE, b"\0")


def _find_content(salt: bytes, data: bytes, start: int) -> bytes | None:
    """Return the content of the record that begins at `start`, or None if it is damaged."""
    begin = start + _PREFIX_BYTES
    digest, length = data[start + _SALT_BYTES : begin - 8], data[begin - 8 : begin]
    content = data[begin : begin + int.from_bytes(length, "big")]
    return content if digest == _digest(salt, content) else None


def _encode(salt: bytes, batch: MarkedBatch) -> bytes:
    """Return a commit as one record."""
    # Written out, as an encoder of JSON takes three times as long for the one entry that is usual.
    start, end = (f'[{seq},"{head}"]' for seq, head in (batch.start, batch.end))
    entries = ",".join([f'["{each.kind}",{encode_basestring(each.body)}]' for each in batch.entries])
    answers = _ENCODE(batch.answers) if batch.answers else "[]"
    content = f"[{start},{end},[{entries}],{answers}]".encode()
    return b"".join((salt, _digest(salt, content), len(content).to_bytes(8, "big"), content))


def _decode(content: bytes) -> MarkedBatch:
    try:
        start, end, written, answers = json.loads(content)
        entries, (seq, head) = [], start
        for kind, body in written:
            entries.append(Entry.make_next(seq, head, kind, body))
            seq, head = seq + 1, entries[-1].hash
        return MarkedBatch((start[0], start[1]), (end[0], end[1]), entries, answers)
    except (TypeError, ValueError) as error:
        raise missing_mark_error() from error


def _digest(salt: bytes, content: bytes) -> bytes:
    return sha256(b"sfumato mark 2\n" + salt + content).digest()


def _measure(file: int) -> int:
    """Return the length of a file, without asking for its times: see `identify_log`."""
    return os.lseek(file, 0, os.SEEK_END)


def _lock(file: int, how: int, timeout: float) -> None:
    """Lock a file, or raise if that takes longer than so many seconds."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise busy_error() from None
        time.sleep(_POLL_SECONDS)


def _write(file: int, data: bytes, offset: int) -> None:
    """Write all of the data, or raise. Half of a record is no record."""
    try:
        if os.pwrite(file, data, offset) != len(data):
            os.pwrite(file, data, offset)  # says why it was cut short
            raise full_error()
    except OSError as error:
        raise (full_error() if error.errno in _FULL else unreadable_error()) from error


def _sync_durably(file: int) -> None:
    """Wait until the disk holds everything that was written, or raise."""
    try:
        _sync(file)
    except OSError as error:
        raise unconfirmed_error() from error


def _sync_fully(file: int) -> None:
    """Wait for the disk itself: without this, macOS calls a write durable that the disk has not kept."""
    fcntl.fcntl(file, _FULL_SYNC)


_FULL_SYNC: int = getattr(fcntl, "F_FULLFSYNC", 0)
_sync: Callable[[int], None] = _sync_fully if _FULL_SYNC else os.fdatasync


def missing_mark_error() -> LedgerError:
    return LedgerError(
        "SF-L130",
        "The mark beside the ledger is missing or damaged, so nothing is answered.",
        why="without it nothing shows that the ledger holds everything that was spent",
        try_="put the file back that ends in .mark; or sfumato ledger accept --receipt FILE",
    )


def copied_error() -> LedgerError:
    return LedgerError(
        "SF-L131",
        "The ledger was copied, so nothing is answered: two copies would be two budgets.",
        try_="use the original; or, if it is gone, sfumato ledger accept --receipt FILE",
    )


def shorter_error(marked: End, found: int) -> LedgerError:
    return LedgerError(
        "SF-L132",
        "The ledger lacks entries that were in it, so nothing is answered.",
        marked=f"entry {marked[0]}",
        found=f"entry {found}",
        try_="sfumato ledger restore COPY, with the newest copy that there is",
    )
