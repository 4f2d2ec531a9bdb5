"""The first page, until there is a better one."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import HTMLResponse

from sfumato.server.access import Role, Visitor, allow

router = APIRouter()


@router.get("/")
def show_welcome(visitor: Annotated[Visitor, Depends(allow(Role.PUBLIC))]) -> HTMLResponse:
    """Return a page that says what this is."""
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><title>sfumato</title><h1>sfumato</h1>"
    )
