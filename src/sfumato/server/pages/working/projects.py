"""The Projects page: purposes with members, a quota of their own and a last day."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from sfumato.errors import SfumatoError
from sfumato.server.access import Role, Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.typed import read_optional_number, read_typed_number, split_names
from sfumato.server.pages.forms import Answered, Asker, Context, Steward, StewardFields, answer_form
from sfumato.server.pages.rendering import render

router = APIRouter()

Name = Annotated[str, Path(max_length=200)]
_EMPTY = dict.fromkeys(("name", "purpose", "epsilon", "delta", "members", "until"), "")


@router.get("/projects")
def show_projects(request: Request, visitor: Asker, context: Context, done: str = "") -> HTMLResponse:
    """Return every project for a steward, and for an analyst those that they are in."""
    said = {
        "created": "The project was created.",
        "changed": "The project was changed.",
        "closed": "The project was closed.",
    }
    return show_page(request, visitor, context, notice=said.get(done, ""))


@router.post("/projects", response_model=None)
def create_project(request: Request, visitor: Steward, context: Context, fields: StewardFields) -> Answered:
    """Create a project with a quota of its own."""
    typed = _EMPTY | fields

    def create() -> str:
        context.lab.create_project(
            typed["name"].strip(),
            purpose=typed["purpose"],
            epsilon=read_typed_number(typed["epsilon"], "ε"),
            delta=read_optional_number(typed["delta"], "δ") or 0,
            members=split_names(typed["members"]),
            until=typed["until"].strip() or None,
        )
        return "/projects?done=created"

    return answer_form(
        create, lambda problem: show_page(request, visitor, context, problem=problem, typed=typed)
    )


@router.post("/projects/{name}/members", response_model=None)
def change_members(
    request: Request, visitor: Steward, context: Context, name: Name, fields: StewardFields
) -> Answered:
    """Change who is in a project, and its last day."""

    def change() -> str:
        members, until = split_names(fields.get("members", "")), fields.get("until", "").strip() or None
        context.lab.change_project(name, members=members, until=until)
        return "/projects?done=changed"

    return answer_form(change, lambda problem: show_page(request, visitor, context, problem=problem))


@router.post("/projects/{name}/close", response_model=None)
def close_project(request: Request, visitor: Steward, context: Context, name: Name) -> Answered:
    """End a project for ever."""

    def close() -> str:
        context.lab.close_project(name)
        return "/projects?done=closed"

    return answer_form(close, lambda problem: show_page(request, visitor, context, problem=problem))


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    *,
    problem: SfumatoError | None = None,
    typed: dict[str, str] | None = None,
    notice: str = "",
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    is_steward = visitor.role is Role.STEWARD
    facts: dict[str, Any] = {
        "projects": context.lab.projects(None if is_steward else visitor.name),
        "typed": _EMPTY | (typed or {}),
        "notice": notice,
        "is_steward": is_steward,
        "address": context.settings.address,
    }
    return render(request, visitor, "projects.html", problem=problem, **facts)
