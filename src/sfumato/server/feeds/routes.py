"""The addresses of feeds. Files have an ending that says the format; OData has a root of its own."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field, StrictStr

from sfumato.errors import SfumatoError
from sfumato.lab.feeds.feed import Feed
from sfumato.lab.feeds.listing import find_published_feed
from sfumato.lab.feeds.naming import require_feed_name
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.feeds import odata, reading
from sfumato.server.feeds.formats import MEDIA_TYPES, describe_feed, make_etag, matches_etag, render_feed
from sfumato.server.feeds.odata_options import parse_options
from sfumato.server.problems import find_status
from sfumato.server.questions import find_question
from sfumato.server.wire import FactsBody, QuestionBody, SpendBody, WireBody, parse_spending

router = APIRouter(tags=["feeds"])

Anyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Payer = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
FileName = Annotated[str, Path(max_length=100)]
_ODATA_JSON = "application/json;odata.metadata=minimal;odata.streaming=true"
_ONE_ROW = re.compile(r"(?P<name>\w+)\((?:row=)?(?P<number>\d{1,9})\)")
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()}},
    304: {"description": "What If-None-Match names is still what there is"},
}


class KeepFeedBody(WireBody):
    """A name for an answer that was released: the question and the price, as they were."""

    name: StrictStr = Field(max_length=60, examples=["visits_by_ward"])
    question: QuestionBody
    spend: SpendBody


@router.get("/feeds", response_model=FactsBody)
def list_feeds(visitor: Anyone, context: Context) -> dict[str, Any]:
    """Return the feeds that the visitor may read, with their columns and addresses."""
    return {"feeds": [describe_feed(feed) for feed in reading.list_readable_feeds(context.lab, visitor)]}


@router.get("/feeds/published/{file}", response_class=Response, responses=_FILES)
def read_published(file: FileName, request: Request, visitor: Anyone, context: Context) -> Response:
    """Return a published answer as NAME.csv, NAME.parquet or NAME.json. It never costs anything."""
    name, _, ending = file.partition(".")
    return _send(request, find_published_feed(context.lab, name), ending, "no-cache")


@router.get("/feeds/released/{file}", response_class=Response, responses=_FILES)
def read_released(
    file: FileName,
    request: Request,
    visitor: Payer,
    context: Context,
    of: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Return an answer that the visitor paid for as NAME.csv, NAME.parquet or NAME.json.

    A steward may name an analyst with `of`. It never costs anything.
    """
    name, _, ending = file.partition(".")
    feed = reading.read_released_feed(context.lab, visitor, name, of)
    return _send(request, feed, ending, "private, no-cache")


@router.post("/api/feeds", response_model=FactsBody)
def keep(body: KeepFeedBody, visitor: Payer, context: Context) -> dict[str, Any]:
    """Give an answer that was released a name. Nothing is charged: a question that is new is refused."""
    name, session = require_feed_name(body.name), reading.open_free_session(context, visitor)
    answer = find_question(session, body.question).release(**parse_spending(body.spend))
    feed = reading.keep_released(context, visitor, answer, body.question, body.spend, name)
    return describe_feed(feed)


@router.delete("/api/feeds/{name}", response_model=FactsBody)
def forget(name: Annotated[str, Path(max_length=100)], visitor: Payer, context: Context) -> dict[str, Any]:
    """Forget the address of an answer. The answer itself stays in the ledger."""
    reading.forget_feed(context, visitor, name)
    return {"forgotten": name}


# ---- OData -------------------------------------------------------------------------------------------------


@router.get("/feeds/odata", response_class=Response)
@router.get("/feeds/odata/", response_class=Response, include_in_schema=False)
def read_service(request: Request, visitor: Anyone, context: Context) -> Response:
    """Return the OData service document: one entity set for each feed that the visitor may read."""
    return _answer(lambda: odata.write_service(_find_sets(context, visitor), _root(context)))


@router.get("/feeds/odata/$metadata", response_class=Response)
def read_metadata(visitor: Anyone, context: Context) -> Response:
    """Return the types of all entity sets as CSDL."""
    return _answer(lambda: odata.write_metadata(_find_sets(context, visitor)), "application/xml")


@router.get("/feeds/odata/{entity_set}", response_class=Response)
def read_entity_set(entity_set: FileName, request: Request, visitor: Anyone, context: Context) -> Response:
    """Return rows of an entity set. $select, $filter, $orderby, $top, $skip and $count are understood."""
    accepted = request.headers.get("accept", "").lower().replace(" ", "")
    large_as_text = "ieee754compatible=true" in accepted
    kind = f"{_ODATA_JSON};IEEE754Compatible=true" if large_as_text else _ODATA_JSON

    def write() -> bytes:
        sets, one = _find_sets(context, visitor), _ONE_ROW.fullmatch(entity_set)
        if one is not None:
            found = odata.find_entity_set(sets, one["name"])
            return odata.write_row(found, int(one["number"]), _root(context), large_as_text=large_as_text)
        found = odata.find_entity_set(sets, entity_set)
        options = parse_options(request.query_params.multi_items(), found.kinds)
        return odata.write_rows(found, options, _root(context), large_as_text=large_as_text)

    return _answer(write, kind)


@router.get("/feeds/odata/{entity_set}/$count", response_class=Response)
def count_entity_set(entity_set: FileName, request: Request, visitor: Anyone, context: Context) -> Response:
    """Return how many rows an entity set has, or how many of them $filter keeps."""

    def write() -> bytes:
        found = odata.find_entity_set(_find_sets(context, visitor), entity_set)
        return odata.count_rows(found, parse_options(request.query_params.multi_items(), found.kinds))

    return _answer(write, "text/plain; charset=utf-8")


# ---- parts -------------------------------------------------------------------------------------------------


def _send(request: Request, feed: Feed, ending: str, caching: str) -> Response:
    """Return a file, or only that it is still the one which the client has."""
    etag = make_etag(feed, ending)
    headers = {"ETag": etag, "Cache-Control": caching, "Vary": "Authorization, Cookie"}
    if ending in MEDIA_TYPES and matches_etag(request.headers.get("if-none-match"), etag):
        return Response(None, 304, headers)
    content = render_feed(feed, ending)
    headers["Content-Disposition"] = f'attachment; filename="{feed.name}.{ending}"'
    return Response(content, 200, headers, MEDIA_TYPES[ending])


def _find_sets(context: ServerContext, visitor: Visitor) -> dict[str, odata.EntitySet]:
    return odata.list_entity_sets(reading.list_readable_feeds(context.lab, visitor))


def _root(context: ServerContext) -> str:
    """Return where clients find the service: by the settings, never by what a request says of itself."""
    return f"{context.settings.address}/feeds/odata"


def _answer(write: Callable[[], bytes], kind: str = _ODATA_JSON) -> Response:
    """Return an OData answer; errors have the form that its clients show."""
    headers = {"OData-Version": "4.0", "Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
    try:
        return Response(write(), 200, headers, kind)
    except SfumatoError as problem:
        said = ". ".join([problem.sentence.rstrip("."), *(f"{k}: {v}" for k, v in problem.facts.items())])
        body = odata.write_error(problem.code, said)
        return Response(body, find_status(problem), headers, _ODATA_JSON)
