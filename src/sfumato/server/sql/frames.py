"""Messages of PostgreSQL's protocol, version 3: those that are sent, and a reader for those that come."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sfumato.server.sql.values import OIDS, SIZES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CANCEL, SSL, ENCRYPTED = 80877102, 80877103, 80877104
"""What can come in the place of a version: a request to cancel, for TLS, or for GSSAPI."""


class FrameError(Exception):
    """A message that does not have the form which the protocol says."""


class FrameReader:
    """Reads the fields of one message from left to right."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def read_bytes(self, size: int) -> bytes:
        """Return so many bytes."""
        if size < 0 or self._at + size > len(self._body):
            raise FrameError("a field is longer than its message")
        self._at += size
        return self._body[self._at - size : self._at]

    def read_int(self, size: int) -> int:
        """Return a signed whole number of 2 or 4 bytes."""
        return int.from_bytes(self.read_bytes(size), "big", signed=True)

    def read_text(self) -> str:
        """Return a text that ends with a zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise FrameError("a text has no end")
        content = self._body[self._at : end]
        self._at = end + 1
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise FrameError("a text is not in UTF-8") from None

    def read_ints(self, size: int) -> list[int]:
        """Return a list of numbers that is preceded by its length."""
        return [self.read_int(size) for _ in range(self.read_count())]

    def read_count(self) -> int:
        """Return the length of a list, which takes at least two bytes for each entry or none at all."""
        count = int.from_bytes(self.read_bytes(2), "big")
        if count > len(self._body):
            raise FrameError("a list is longer than its message")
        return count

    def read_options(self) -> dict[str, str]:
        """Return pairs of texts up to an empty one."""
        found: dict[str, str] = {}
        while self._at < len(self._body) and (name := self.read_text()):
            found[name] = self.read_text()
        return found


def frame(tag: bytes, body: bytes = b"") -> bytes:
    """Return a message with its length."""
    return tag + struct.pack(">i", len(body) + 4) + body


def write_texts(*texts: str) -> bytes:
    """Return texts, each with a zero byte behind it."""
    return b"".join(text.replace("\0", "").encode("utf-8", "replace") + b"\0" for text in texts)


def authentication(kind: int) -> bytes:
    """Return what asks for a password (3), or says that it was right (0)."""
    return frame(b"R", struct.pack(">i", kind))


def parameter_status(name: str, value: str) -> bytes:
    """Return a setting of the server's that clients look at."""
    return frame(b"S", write_texts(name, value))


def row_description(names: Sequence[str], kinds: Sequence[str], formats: Sequence[int]) -> bytes:
    """Return the names, types and formats of columns."""
    columns = zip(names, kinds, formats, strict=True)
    body = b"".join(
        write_texts(name) + struct.pack(">ihihih", 0, 0, OIDS[kind], SIZES[kind], -1, form)
        for name, kind, form in columns
    )
    return frame(b"T", struct.pack(">h", len(names)) + body)


def data_row(cells: Iterable[bytes | None]) -> bytes:
    """Return one row."""
    written = list(cells)
    return frame(b"D", struct.pack(">h", len(written)) + write_cells(written))


def write_cells(cells: Iterable[bytes | None]) -> bytes:
    """Return cells, each with its length before it; −1 for one that is missing."""
    return b"".join(
        b"\xff\xff\xff\xff" if cell is None else struct.pack(">i", len(cell)) + cell for cell in cells
    )


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return the types of the parameters of a statement."""
    return frame(b"t", struct.pack(f">h{len(oids)}i", len(oids), *oids))


def command_complete(tag: str) -> bytes:
    """Return that a statement is done."""
    return frame(b"C", write_texts(tag))


def ready_for_query(status: str) -> bytes:
    """Return that the next statement may come, and whether a transaction is open."""
    return frame(b"Z", status.encode())


def error_response(fields: Mapping[str, str]) -> bytes:
    """Return an error with fields such as S, C and M, or an end of everything with S as FATAL."""
    body = b"".join(name.encode() + write_texts(value) for name, value in fields.items() if value)
    return frame(b"E", body + b"\0")


def copy_out(columns: int, binary: bool) -> bytes:
    """Return that rows follow as they would stand in a file."""
    form = int(binary)
    return frame(b"H", struct.pack(f">bh{columns}h", form, columns, *([form] * columns)))
