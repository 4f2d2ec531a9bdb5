"""Texts of a form with names that were sent several times, such as the columns that were ticked."""

from typing import Annotated

from fastapi import Depends, Request

from sfumato.server.access import Role, Visitor, allow

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]


async def read_fields(request: Request, _: Asker) -> dict[str, str]:
    """Return the texts of a form by name; of a name that was sent twice, the last."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


async def read_ticked(request: Request, _: Asker) -> list[str]:
    """Return the columns that were ticked."""
    return [value for value in (await request.form()).getlist("columns") if isinstance(value, str)]


Fields = Annotated[dict[str, str], Depends(read_fields)]
Ticked = Annotated[list[str], Depends(read_ticked)]
