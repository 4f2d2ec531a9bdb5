"""Projects: the steward creates, changes and closes them; members see theirs.

A request that is made in a project names it in the header X-Project, or as `?project=`.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import Field, StrictStr

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import ExactNumber, FactsBody, WireBody, parse_number

router = APIRouter(prefix="/api", tags=["projects"])

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Reader = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]
ProjectName = Annotated[str, Path(max_length=80)]
Names = Annotated[list[StrictStr], Field(max_length=1000)]


class NewProjectBody(WireBody):
    """What a project is for, its quota, its members and its last day."""

    name: StrictStr = Field(max_length=80)
    purpose: StrictStr = Field(max_length=2000)
    epsilon: ExactNumber
    delta: ExactNumber = 0
    members: Names
    until: StrictStr | None = Field(None, max_length=10, examples=["2099-12-31"])
    tables: Names | None = None


class ProjectChangeBody(WireBody):
    """What is to be changed of a project. What is not sent stays; `until: null` takes the last day away."""

    epsilon: ExactNumber | None = None
    delta: ExactNumber = 0
    members: Names = Field(default_factory=list)
    until: StrictStr | None = Field(None, max_length=10)
    tables: Names | None = None


@router.get("/projects", response_model=FactsBody)
def list_projects(visitor: Reader, context: Context) -> dict[str, Any]:
    """Return every project, or for an analyst those that they are a member of."""
    return {"projects": [each.to_dict() for each in context.lab.projects(visitor.analyst)]}


@router.post("/projects", response_model=FactsBody)
def create_project(body: NewProjectBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Create a project. Sent again, the same project is returned."""
    project = context.lab.create_project(
        body.name,
        purpose=body.purpose,
        epsilon=parse_number(body.epsilon),
        delta=parse_number(body.delta),
        members=body.members,
        until=body.until,
        tables=body.tables,
    )
    return project.to_dict()


@router.post("/projects/{name}", response_model=FactsBody)
def change_project(
    name: ProjectName, body: ProjectChangeBody, visitor: Steward, context: Context
) -> dict[str, Any]:
    """Change what is sent of a project, also for requests that are under way."""
    lists = {"members", "until", "tables"} & body.model_fields_set
    said: dict[str, Any] = {each: getattr(body, each) for each in lists}
    if body.epsilon is not None:
        said |= {"epsilon": parse_number(body.epsilon), "delta": parse_number(body.delta)}
    return context.lab.change_project(name, **said).to_dict()


@router.post("/projects/{name}/close", response_model=FactsBody)
def close_project(name: ProjectName, visitor: Steward, context: Context) -> dict[str, Any]:
    """End a project for ever. What it spent stays spent."""
    return context.lab.close_project(name).to_dict()
