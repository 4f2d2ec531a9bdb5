"""One connection: PostgreSQL's protocol from the first message to the last, simple and extended.

Nothing here knows what a statement means. A message that does not have its form ends the connection, and an
error of a statement is told to the tool, which may go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError, UsageError
from sfumato.server.sql import frames
from sfumato.server.sql.errors import describe_error
from sfumato.server.sql.frames import FrameError, FrameReader
from sfumato.server.sql.rows import encode_rows, write_copy
from sfumato.server.sql.texts import split_statements
from sfumato.server.sql.values import OIDS, read_parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.server.sql.statements import StatementOutcome, StatementRunner
    from sfumato.server.sql.wire import ClientWire

MOST_NAMED = 256
"""Prepared statements and portals of one connection."""


_RUNS = (b"Q", b"D", b"E")
"""Messages that run a statement, or send rows of one."""


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A statement that was sent once, to be run with other values."""

    text: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A statement with its values, whose rows are fetched in one go or in several."""

    text: str
    values: tuple[Any, ...]
    formats: tuple[int, ...]
    outcome: StatementOutcome | None = field(default=None, repr=False)
    sent: int = 0


class Conversation:
    """Answers the messages of a visitor who has been let in."""

    def __init__(
        self,
        wire: ClientWire,
        runner: StatementRunner,
        require_still: Callable[[], None],
        seal: Callable[[], SfumatoError],
        count_statement: Callable[[], None],
    ) -> None:
        self._wire, self._runner, self._seal = wire, runner, seal
        self._require_still, self._count_statement = require_still, count_statement
        self._statements: dict[str, PreparedText] = {}
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        self._handlers: dict[bytes, Callable[[FrameReader], None]] = {
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._close,
        }

    def run(self) -> None:
        """Answer until the tool says goodbye."""
        while True:
            tag, body = self._wire.read_message()
            if tag == b"X":
                return
            if tag in _RUNS:
                self._require_still()
            if tag == b"Q":
                self._query(FrameReader(body))
            elif tag == b"S":
                self._skipping = False
                self._end_implicit()
            elif tag == b"H":
                self._wire.flush()
            elif tag in (b"d", b"c", b"f"):
                continue  # what is left of a COPY that was refused
            elif tag in self._handlers:
                self._attempt(self._handlers[tag], FrameReader(body))
            else:
                raise FrameError("this kind of message is not known")

    # ---- simple queries ----

    def _query(self, reader: FrameReader) -> None:
        text = reader.read_text()
        try:
            statements = split_statements(text)
            if not statements:
                self._wire.send(frames.frame(b"I"))
            for each in statements:
                self._count_statement()
                self._send_outcome(self._runner.run(each))
        except Exception as problem:
            self._report(problem)
        self._wire.send(frames.ready_for_query(self._runner.status))
        self._wire.flush()

    def _send_outcome(self, outcome: StatementOutcome) -> None:
        if outcome.names is None:
            self._wire.send(frames.command_complete(outcome.tag))
            return
        if outcome.copied is not None:
            self._wire.send(write_copy(outcome))
        else:
            formats = (0,) * len(outcome.names)
            self._wire.send(frames.row_description(outcome.names, outcome.kinds, formats))
            self._wire.send(encode_rows(outcome, formats, 0, len(outcome.rows)))
        self._wire.send(frames.command_complete(outcome.tag))

    # ---- extended queries ----

    def _attempt(self, handle: Callable[[FrameReader], None], reader: FrameReader) -> None:
        """Handle a message; after an error all up to the next Sync are skipped."""
        if self._skipping:
            return
        try:
            handle(reader)
        except FrameError:
            raise
        except Exception as problem:
            self._skipping = True
            self._report(problem)
            self._wire.flush()

    def _parse(self, reader: FrameReader) -> None:
        name, text = reader.read_text(), reader.read_text()
        oids = tuple(reader.read_ints(4))
        statements = split_statements(text)
        if len(statements) > 1:
            raise UsageError("SF-F139", "A prepared statement is a single one.")
        self._require_room(self._statements, name)
        self._statements[name] = PreparedText(statements[0] if statements else "", oids)
        self._wire.send(frames.frame(b"1"))

    def _bind(self, reader: FrameReader) -> None:
        portal, name = reader.read_text(), reader.read_text()
        formats = reader.read_ints(2)
        contents = [self._read_content(reader) for _ in range(reader.read_count())]
        shown = tuple(reader.read_ints(2))
        prepared = self._find(self._statements, name)
        forms = formats * len(contents) if len(formats) == 1 else formats or [0] * len(contents)
        if len(forms) != len(contents):
            raise FrameError("formats and values differ in number")
        oids = [*prepared.oids, *[0] * len(contents)]
        triples = zip(contents, oids, forms, strict=False)
        values = tuple(read_parameter(content, oid, form == 1) for content, oid, form in triples)
        self._require_room(self._portals, portal)
        self._portals[portal] = Portal(prepared.text, values, shown)
        self._wire.send(frames.frame(b"2"))

    @staticmethod
    def _read_content(reader: FrameReader) -> bytes | None:
        size = reader.read_int(4)
        return None if size == -1 else reader.read_bytes(size)

    def _describe(self, reader: FrameReader) -> None:
        kind, name = reader.read_bytes(1), reader.read_text()
        if kind == b"S":
            prepared = self._find(self._statements, name)
            self._count_statement()
            parameters, outcome = self._runner.describe(prepared.text)
            many = max(len(parameters), len(prepared.oids))
            kinds = [*parameters, *[None] * many][:many]
            given = [*prepared.oids, *[0] * many][:many]
            oids = [oid or OIDS[kind or "text"] for oid, kind in zip(given, kinds, strict=True)]
            # Values will come in the form that is said here.
            self._statements[name] = replace(prepared, oids=tuple(oids))
            self._wire.send(frames.parameter_description(oids))
            self._describe_rows(outcome, ())
        elif kind == b"P":
            portal = self._find(self._portals, name)
            self._describe_rows(self._fetch(portal), portal.formats)
        else:
            raise FrameError("only statements and portals are described")

    def _describe_rows(self, outcome: StatementOutcome | None, formats: tuple[int, ...]) -> None:
        if outcome is None or outcome.names is None or outcome.copied is not None:
            self._wire.send(frames.frame(b"n"))
            return
        forms = _spread_formats(formats, len(outcome.names))
        self._wire.send(frames.row_description(outcome.names, outcome.kinds, forms))

    def _execute(self, reader: FrameReader) -> None:
        portal, most = self._find(self._portals, reader.read_text()), reader.read_int(4)
        if not portal.text:
            self._wire.send(frames.frame(b"I"))
            return
        outcome = self._fetch(portal)
        if outcome.names is None or outcome.copied is not None:
            self._send_outcome(outcome)
            return
        end = len(outcome.rows) if most <= 0 else min(len(outcome.rows), portal.sent + most)
        forms = _spread_formats(portal.formats, len(outcome.names))
        self._wire.send(encode_rows(outcome, forms, portal.sent, end))
        portal.sent = end
        suspended = end < len(outcome.rows)
        self._wire.send(frames.frame(b"s") if suspended else frames.command_complete(outcome.tag))

    def _fetch(self, portal: Portal) -> StatementOutcome:
        """Return what a portal gives, which is found out once."""
        if portal.outcome is None:
            self._count_statement()
            portal.outcome = self._runner.run(portal.text, portal.values)
        return portal.outcome

    def _close(self, reader: FrameReader) -> None:
        kind, name = reader.read_bytes(1), reader.read_text()
        named: dict[str, Any] = self._statements if kind == b"S" else self._portals
        named.pop(name, None)
        self._wire.send(frames.frame(b"3"))

    def _end_implicit(self) -> None:
        if self._runner.status == "I":
            self._portals.clear()  # they live as long as their transaction
        self._wire.send(frames.ready_for_query(self._runner.status))
        self._wire.flush()

    # ---- parts ----

    def _report(self, problem: Exception) -> None:
        """Tell an error; one that is not ours goes to the steward's file, and says one sentence."""
        if isinstance(problem, FrameError | OSError):
            raise problem
        known = problem if isinstance(problem, SfumatoError) else self._seal()
        if self._runner.status == "T":
            self._runner.status = "E"
        self._wire.send(frames.error_response(describe_error(known)))

    def _require_room(self, named: dict[str, Any], name: str) -> None:
        if len(named) >= MOST_NAMED and name not in named:
            raise UsageError("SF-F139", f"A connection has at most {MOST_NAMED} prepared statements.")

    def _find(self, named: dict[str, Any], name: str) -> Any:
        if name not in named:
            raise UsageError("SF-F139", "There is no prepared statement or portal of this name.")
        return named[name]


def _spread_formats(formats: tuple[int, ...], columns: int) -> tuple[int, ...]:
    """Return a format for each column: none is text for all, one is for all."""
    forms = formats * columns if len(formats) == 1 else formats or (0,) * columns
    if len(forms) != columns or not set(forms) <= {0, 1}:
        raise UsageError("SF-F139", "There is one format for each column, 0 or 1.")
    return forms
