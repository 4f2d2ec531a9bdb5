"""The mark beside a SQLite ledger: where its chain ends, and the newest entries in full.

SQLite takes a damaged or missing log for one that ended earlier, and would forget the charges in it. So every
commit is written to this second file first, and that write is what a charge waits for: SQLite's own log need
not be synced. A ledger that ends before its mark gets the missing entries back from here, or is refused.

The file has two equal headers on pages of their own, then records. A header names the entry up to which
SQLite's main file holds everything, which file the witness is, and a salt; records with another salt are
remains of an earlier time.
Each commit is one record, so only the last record can be torn, and then nobody was told of its commit.
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
from sfumato.ledger.chain import GENESIS
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

LIMIT = 1 << 20
"""Bytes after which the mark begins anew, once SQLite's main file holds everything.

Chosen with `benchmarks/ledger.py`: some 800 single charges. No privacy depends on it.
"""

_ROOM = 1 << 18
"""Bytes by which the file grows at a time: a sync of a file that grows takes several times as long."""
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
    entries: Sequence[Sequence[str]]
    """Kind and body of each entry."""
    answers: Sequence[Sequence[Any]]
    """Charge, nonce and answer of each release."""


class Mark:
    """The mark of one ledger. Whoever appends to it holds its lock, and is the ledger's only writer."""

    end: End
    """Where the chain ends, as far as this process has read."""
    is_settled: bool
    """Whether SQLite is known to hold everything up to `end`."""
    _offset: int
    """Where the next record goes."""
    _last: int
    """Where the last record is."""
    _unsettled: list[tuple[int, bytes]]
    """Place and content of each record that SQLite may lack."""

    def __init__(self, ledger: str) -> None:
        self.path = f"{ledger}.mark"
        self.witness = Witness(ledger)
        self._bytes_path = os.fsencode(self.path)
        self._file: int | None = None
        self._identity: Identity | None = None
        self._is_locked = False
        self.forget()

    # ---- locking -------------------------------------------------------------------------------------------

    def try_lock(self) -> bool:
        """Become the only writer and checkpointer among all processes, unless another one is."""
        try:
            fcntl.flock(self._file or self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_locked = True
        return True

    def lock(self, timeout: float) -> None:
        """Become the only writer and checkpointer among all processes."""
        _lock(self._file or self._open(), fcntl.LOCK_EX, timeout)
        self._is_locked = True

    def unlock(self) -> None:
        """Let others write, if they could not."""
        # If the file was closed meanwhile, the lock is released already. An interruption may have come after
        # the lock and before it was noted.
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._is_locked = False

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Be the only writer and checkpointer for the time of a block."""
        self.lock(timeout)
        try:
            yield
        finally:
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
        return self._identity is not None and identify_log(self._bytes_path) == self._identity

    def close(self) -> None:
        """Close the file. The next use opens it and reads all of it again."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._is_locked = None, False
        self.forget()

    def __del__(self) -> None:
        # A ledger that is let go of is seldom closed, and a process may open many.
        if self._file is not None:
            os.close(self._file)

    # ---- reading -------------------------------------------------------------------------------------------

    def read(self, *, copied: bool = False) -> End:
        """Return where the chain ends, with everything that others have written.

        A mark that was copied from elsewhere is refused unless `copied` allows it.
        """
        file = self._file or self._open()
        # The first header is always the one that changes first, and its digest with it.
        if os.pread(file, _DIGEST_BYTES, 0) != self._digest:
            self._read_header(os.pread(file, _RECORDS, 0), copied)
        if os.pread(file, _SALT_BYTES, self._offset) == self._salt or not self._is_known:
            self._size = _measure(file)
            self._read_records(os.pread(file, self._size, self._offset))
        return self.end

    def search(self) -> End:
        """Return where the chain ends, even if the next record is damaged so that it no longer shows."""
        self._is_known = False
        return self.read()

    def list_batches(self) -> list[MarkedBatch]:
        """Return what `read` has found since the last call of `settle`, oldest first."""
        return [_decode(content) for _, content in self._unsettled]

    def write_again(self) -> None:
        """Make durable what `read` has found, since whoever wrote it may have been killed before it was.

        Written anew, as a system that could not write it once may have dropped it, and still show it.
        """
        file = self._open()
        for offset, content in self._unsettled:
            _write(file, self._encode_record(content), offset)
        _sync_durably(file)

    def settle(self) -> None:
        """Note that SQLite holds everything that was read or appended so far."""
        self._unsettled.clear()
        self.is_settled = True

    # ---- writing -------------------------------------------------------------------------------------------

    def append(self, batch: MarkedBatch) -> None:
        """Write what a commit is about to write. Once this returns, it survives a crash."""
        if self._file is None:  # closed for a fork within the transaction
            raise unreadable_error()
        require_agreement(batch.start == self.end, "where its mark says that the chain ends")
        content = _encode(batch)
        record = self._encode_record(content)
        end = self._offset + len(record)
        if end > self._size:
            self._grow(end)
        self.is_settled = False  # until SQLite holds it too
        _write(self._file, record, self._offset)
        _sync_durably(self._file)
        self._unsettled.append((self._offset, content))
        self._last, self._offset, self.end = self._offset, end, batch.end

    def undo(self, start: End) -> None:
        """Take back the last record, whose commit SQLite has refused. Nobody was told of it."""
        try:
            _write(self._open(), bytes(_PREFIX_BYTES), self._last)
            _sync_durably(self._open())
        except LedgerError as error:
            raise unconfirmed_error() from error
        self._offset, self.end = self._last, start
        self.settle()

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
        # One after the other: while the first is being written, the second still speaks for the old records.
        for offset in (0, _PAGE):
            _write(file, _encode_header(fields), offset)
            _sync_durably(file)
        if _measure(file) > 2 * LIMIT + _ROOM:
            os.truncate(file, _RECORDS + LIMIT)
        if adopt:  # only now: whoever is killed before leaves a ledger that can be adopted again
            self.witness.remove_others(end)
            sync_path(Path(self.path).parent)
        self.forget()
        self.read()
        self.settle()

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

    def forget(self) -> None:
        """Forget what was read. The next use reads all of it again."""
        self._digest: bytes | None = None
        self._salt = b""
        self._unsettled = []
        self._offset = self._last = self._size = _RECORDS
        self._enough = _RECORDS + LIMIT
        self._is_known = self.is_settled = False
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
        self.forget()
        if self._is_locked:
            headers = self._equalize_headers(headers)
        self._digest, self._salt = headers[:_DIGEST_BYTES], bytes.fromhex(header["salt"])
        self.end = header["end"][0], header["end"][1]
        self.noted = header["witness"]

    def _equalize_headers(self, headers: bytes) -> bytes:
        """Write the valid header in place of one that is damaged or was not brought up to date.

        Otherwise the second could be older than the records, and would speak once the first is damaged.
        """
        first, second = headers[:_PAGE], headers[_PAGE:]
        if first == second:
            return headers
        valid, place = (first, _PAGE) if _read_header(first) else (second, 0)
        _write(self._open(), valid, place)
        _sync_durably(self._open())
        return 2 * valid

    def _encode_record(self, content: bytes) -> bytes:
        return b"".join((self._salt, _digest(self._salt, content), len(content).to_bytes(8, "big"), content))

    def _grow(self, end: int) -> None:
        """Let the file reach beyond `end`. Without the record: on a full disk, nothing of it may be there."""
        self._size = _measure(self._open())  # others may have let it grow
        if end > self._size:
            _write(self._open(), bytes(end + _ROOM - self._size), self._size)
            self._size = end + _ROOM

    def _read_records(self, data: bytes) -> None:
        """Take in all valid records. A damaged one hides none of those after it."""
        base, start = self._offset, 0
        while (start := data.find(self._salt, start)) >= 0:
            content = _read_record(self._salt, data[start:])
            if content is None:
                start += 1
                continue
            self._last = base + start
            start += _PREFIX_BYTES + len(content)
            self._offset = base + start
            end = _decode(content).end
            # An older one has stayed behind a record that was written over damaged ones.
            if end[0] > self.end[0]:
                self._unsettled.append((self._last, content))
                self.end, self.is_settled = end, False
        self._is_known = True


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


def _find_header(headers: bytes) -> dict[str, Any] | None:
    """Return the newest valid header. The first is written before the second."""
    return _read_header(headers[:_PAGE]) or _read_header(headers[_PAGE:])


def _read_header(page: bytes) -> dict[str, Any] | None:
    """Return what a header says, or None if it is damaged."""
    digest, content = page[:_DIGEST_BYTES], page[_DIGEST_BYTES:].rstrip(b"\0")
    if not content or digest != _digest(b"", content):
        return None
    found: dict[str, Any] = json.loads(content)
    return found


def _encode_header(fields: dict[str, Any]) -> bytes:
    content = json.dumps(fields).encode()
    return (_digest(b"", content) + content).ljust(_PAGE, b"\0")


def _read_record(salt: bytes, data: bytes) -> bytes | None:
    """Return the content of the record that begins the data, or None if it is damaged."""
    digest, length = data[_SALT_BYTES : _PREFIX_BYTES - 8], data[_PREFIX_BYTES - 8 : _PREFIX_BYTES]
    content = data[_PREFIX_BYTES : _PREFIX_BYTES + int.from_bytes(length, "big")]
    return content if digest == _digest(salt, content) else None


def _encode(batch: MarkedBatch) -> bytes:
    """Return a commit as JSON, written out: an encoder takes three times as long for the usual one entry."""
    start, end = (f'[{seq},"{head}"]' for seq, head in (batch.start, batch.end))
    entries = ",".join([f'["{kind}",{encode_basestring(body)}]' for kind, body in batch.entries])
    answers = _ENCODE(batch.answers) if batch.answers else "[]"
    return f"[{start},{end},[{entries}],{answers}]".encode()


def _decode(content: bytes) -> MarkedBatch:
    try:
        start, end, entries, answers = json.loads(content)
        return MarkedBatch(tuple(start), tuple(end), entries, answers)
    except (TypeError, ValueError) as error:
        raise missing_mark_error() from error


def _digest(salt: bytes, content: bytes) -> bytes:
    return sha256(b"sfumato mark 2\n" + salt + content).digest()


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


def _measure(file: int) -> int:
    """Return the length of a file, without asking for its times: see `identify_log`."""
    return os.lseek(file, 0, os.SEEK_END)


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
