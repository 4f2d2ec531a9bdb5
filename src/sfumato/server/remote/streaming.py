"""Streams of visitors: found, read and, by the steward, run. The API and the pages call these.

Quoting a stream and reading what was released reads no row, so ordinary sessions do it, which cannot charge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.streams.records import read_records
from sfumato.lab.remote.expressions import decode_form
from sfumato.lab.remote.kept_answers import restrict_to_kept
from sfumato.server.wire import parse_spending, write_plain

if TYPE_CHECKING:
    from sfumato.lab.stream import TableStream
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.remote.sent_values import StreamBody


def find_stream(context: ServerContext, visitor: Visitor, asked: StreamBody) -> TableStream:
    """Return a stream that can be quoted and read, and that can charge nothing."""
    return restrict_to_kept(context.lab.session(visitor.analyst)).stream(**read_stream_arguments(asked))


def run_stream(context: ServerContext, visitor: Visitor, asked: StreamBody, until: int | None) -> TableStream:
    """Release the ticks that are complete, up to a number of them. Sent twice, it is done once."""
    session = context.lab.session(visitor.analyst)
    stream = session.stream(**read_stream_arguments(asked))
    if until is None:
        return stream.run()
    missing = until - stream.tick
    return stream.run(missing) if missing > 0 else stream


def list_streams(context: ServerContext, visitor: Visitor) -> list[dict[str, Any]]:
    """Return the streams that were begun, each with what was released, ready for JSON."""
    session = restrict_to_kept(context.lab.session(visitor.analyst))
    typed = {each.request: each.typed for each in read_records(context.lab.streams_folder)}
    return [
        {"stream": _write_arguments(typed[each.request]), "released": write_stream(each)}
        for each in session.streams()
        if each.request in typed
    ]


def write_stream(stream: TableStream, window: int | None = None, decay: Any = None) -> dict[str, Any]:
    """Return a stream and what it has released, ready for JSON."""
    found: dict[str, Any] = write_plain(stream.to_dict(window, decay))
    return found


def read_stream_arguments(asked: StreamBody) -> dict[str, Any]:
    """Return the arguments of `s.stream` that were sent."""
    sent = asked.model_dump(exclude={"spend"})
    measure = sent.pop("measure")
    sent["measure"] = measure if isinstance(measure, str) else decode_form(measure)
    return {**sent, **parse_spending(asked.spend)}


def _write_arguments(typed: Any) -> dict[str, Any]:
    """Return what was typed for a stream in the form in which streams are sent."""
    amounts = ("epsilon", "delta", "rho", "share", "risk")
    said = {name: each for name, each in typed.items() if each is not None}
    spend = {name: str(said.pop(name)) for name in amounts if name in said}
    by = said.get("by", ())
    return write_plain({**said, "by": [by] if isinstance(by, str) else list(by), "spend": spend})  # type: ignore[no-any-return]
