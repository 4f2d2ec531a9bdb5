"""Long work: fits, samples of generators, evaluations and reports are sent as jobs and looked at later."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.jobs import requests
from sfumato.server.remote.sent_values import JobRequestBody
from sfumato.server.wire import FactsBody

router = APIRouter(prefix="/api", tags=["jobs"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.post("/jobs", response_model=FactsBody, status_code=202)
def send_job(body: JobRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Keep a job, which is begun soon. Sent again with the same key, it is the same job."""
    return requests.send_job(context, visitor, body).to_dict()


@router.get("/jobs", response_model=FactsBody)
def list_jobs(
    visitor: Asker, context: Context, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> dict[str, Any]:
    """Return the newest jobs of the visitor, or for a steward those of everyone."""
    return {"jobs": [each.to_dict() for each in requests.list_jobs(context, visitor, limit)]}


@router.post("/jobs/{job}/cancel", response_model=FactsBody)
def cancel_job(job: JobPath, visitor: Asker, context: Context) -> dict[str, Any]:
    """End a job. What it charged stays charged; one that has ended already stays as it is."""
    return requests.cancel_job(context, visitor, job).to_dict()


@router.get("/jobs/{job}", response_model=FactsBody)
def read_job(job: JobPath, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return how far a job is, in rounds that were answered, and its result once it is done."""
    return requests.find_job(context, visitor, job).to_dict()
