"""Streams over tables: everyone may quote them and read what was released; the steward releases ticks.

A tick is read in the server's own process and not in a slot, so no analyst can have one released.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.remote import streaming
from sfumato.server.remote.sent_values import StreamBody, StreamReadBody, StreamRunBody
from sfumato.server.wire import FactsBody, QuoteBody, parse_number, write_quote

router = APIRouter(prefix="/api", tags=["streams"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("/streams", response_model=FactsBody)
def list_streams(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the streams that were begun, of tables that the visitor may ask about."""
    return {"streams": streaming.list_streams(context, visitor)}


@router.post("/streams/quote", response_model=QuoteBody)
def quote_stream(body: StreamBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the price of all ticks of a stream together. Nothing is read, and nothing is spent."""
    return write_quote(streaming.find_stream(context, visitor, body).quote())


@router.post("/streams/read", response_model=FactsBody)
def read_stream(body: StreamReadBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what was released of a stream. It costs nothing."""
    decay = None if body.decay is None else parse_number(body.decay)
    return streaming.write_stream(streaming.find_stream(context, visitor, body.stream), body.window, decay)


@router.post("/streams/run", response_model=FactsBody)
def run_stream(body: StreamRunBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Release the ticks that are complete; the first of them is charged for all."""
    return streaming.write_stream(streaming.run_stream(context, visitor, body.stream, body.until))
