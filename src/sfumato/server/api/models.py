"""Models that jobs fit: what can be fitted, what a synthesis would cost, and files of those that are done."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.responses import FileResponse

from sfumato.lab.remote.parameters import decode_model, list_model_names, list_parameters_of
from sfumato.lab.remote.results import write_synthesis_quote
from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.jobs import requests
from sfumato.server.jobs.tasks import MODEL_FILE, TABLE_FILE, read_arguments
from sfumato.server.remote.sent_values import FitFields
from sfumato.server.replaying import replay_rows
from sfumato.server.wire import FactsBody

router = APIRouter(prefix="/api", tags=["models"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.get("/models", response_model=FactsBody)
def list_models(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what can be fitted, with the names of parameters, and the fits of the visitor that are done."""
    fitted = [each.to_dict() for each in requests.list_fits(context, visitor)]
    return {"known": {name: list_parameters_of(name) for name in list_model_names()}, "fitted": fitted}


@router.post("/models/quote", response_model=FactsBody)
def quote_model(body: FitFields, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return how a synthesis would spend its budget. Nothing is read, and nothing is spent."""
    session = open_session(context, visitor)
    sent = body.model_dump(exclude_none=True)
    given = read_arguments(sent, ("features", "target", "columns", "rows_per_unit", "split"))
    model, rows = decode_model(sent["model"]), replay_rows(session, sent["table"])
    return write_synthesis_quote(session.quote(model, table=rows, **given))


@router.get("/models/{job}/file", response_class=FileResponse)
def read_model_file(job: JobPath, visitor: Asker, context: Context) -> FileResponse:
    """Return a fitted estimator as a file that `sf.learn.load` reads. There is no pickle in it."""
    path = requests.find_file(context, visitor, job, MODEL_FILE)
    return FileResponse(path, media_type="application/octet-stream", filename="model.npz")


@router.get("/models/{job}/rows", response_class=FileResponse)
def read_model_rows(job: JobPath, visitor: Asker, context: Context) -> FileResponse:
    """Return the synthetic rows that a job drew, as a Parquet file."""
    path = requests.find_file(context, visitor, job, TABLE_FILE)
    return FileResponse(path, media_type="application/vnd.apache.parquet", filename="rows.parquet")
