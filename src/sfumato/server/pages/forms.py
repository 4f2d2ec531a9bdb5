"""Forms of pages: how their texts are read, and what is answered to one that was sent."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato.errors import SfumatoError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context

Context = Annotated[ServerContext, Depends(get_context)]
Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Analyst = Annotated[Visitor, Depends(allow(Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Answered = HTMLResponse | RedirectResponse
"""What a form is answered with: the page with what is wrong, or the way to what was done."""


def answer_form(do: Callable[[], str], show: Callable[[SfumatoError], HTMLResponse]) -> Answered:
    """Do what a form asks for and go to the address that this returns; show the page if it is refused."""
    try:
        return RedirectResponse(do(), 303)
    except SfumatoError as problem:
        return show(problem)


async def read_fields(request: Request, _: Asker) -> dict[str, str]:
    """Return the texts of a form by name; of a name that was sent twice, the last."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


async def read_steward_fields(request: Request, _: Steward) -> dict[str, str]:
    """Return the texts of a form that only stewards send."""
    return await read_fields(request, _)


async def read_ticked(request: Request, _: Asker) -> list[str]:
    """Return the columns that were ticked."""
    return [value for value in (await request.form()).getlist("columns") if isinstance(value, str)]


Fields = Annotated[dict[str, str], Depends(read_fields)]
StewardFields = Annotated[dict[str, str], Depends(read_steward_fields)]
Ticked = Annotated[list[str], Depends(read_ticked)]
