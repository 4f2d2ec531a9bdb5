"""The Projects page: purposes with members, a quota of their own and a last day."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato.errors import SfumatoError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.typed import read_optional_number, read_typed_number, split_names
from sfumato.server.pages.rendering import render
from sfumato.server.problems import find_status

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]
Typed = Annotated[str, Form(max_length=200)]
Text = Annotated[str, Form(max_length=4000)]
Name = Annotated[str, Path(max_length=200)]


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
def create_project(
    request: Request,
    visitor: Steward,
    context: Context,
    name: Typed = "",
    purpose: Text = "",
    epsilon: Typed = "",
    delta: Typed = "",
    members: Text = "",
    until: Typed = "",
) -> HTMLResponse | RedirectResponse:
    """Create a project with a quota of its own."""
    typed = {
        "name": name,
        "purpose": purpose,
        "epsilon": epsilon,
        "delta": delta,
        "members": members,
        "until": until,
    }
    try:
        context.lab.create_project(
            name.strip(),
            purpose=purpose,
            epsilon=read_typed_number(epsilon, "ε"),
            delta=read_optional_number(delta, "δ") or 0,
            members=split_names(members),
            until=until.strip() or None,
        )
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem, typed=typed)
    return RedirectResponse("/projects?done=created", 303)


@router.post("/projects/{name}/members", response_model=None)
def change_members(
    request: Request, visitor: Steward, context: Context, name: Name, members: Text = "", until: Typed = ""
) -> HTMLResponse | RedirectResponse:
    """Change who is in a project, and its last day."""
    try:
        context.lab.change_project(name, members=split_names(members), until=until.strip() or None)
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/projects?done=changed", 303)


@router.post("/projects/{name}/close", response_model=None)
def close_project(
    request: Request, visitor: Steward, context: Context, name: Name
) -> HTMLResponse | RedirectResponse:
    """End a project for ever."""
    try:
        context.lab.close_project(name)
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/projects?done=closed", 303)


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
    empty = dict.fromkeys(("name", "purpose", "epsilon", "delta", "members", "until"), "")
    facts = {
        "projects": context.lab.projects(None if is_steward else visitor.name),
        "typed": empty | (typed or {}),
        "problem": problem,
        "notice": notice,
        "is_steward": is_steward,
        "address": context.settings.address,
    }
    status = 200 if problem is None else find_status(problem)
    return render(request, visitor, "projects.html", status=status, **facts)
