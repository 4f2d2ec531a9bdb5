"""Style sheet, scripts and pictures of the pages: a fixed list of files, open to everyone."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse

from sfumato.errors import PolicyError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.pages.rendering import STATIC

router = APIRouter()

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".md": "text/plain"}
# Addresses carry a digest of the file, so a changed file has a new address.
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{name:path}")
def send_static_file(name: str, _: Annotated[Visitor, Depends(allow(Role.PUBLIC))]) -> FileResponse:
    """Return one of the files."""
    if name not in list_static_files():
        raise PolicyError("SF-U101", "There is nothing at this address.", try_="/")
    path = STATIC / name
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=_FOR_EVER)


@cache
def list_static_files() -> frozenset[str]:
    """Return the names of the files that are served: those there when they are first asked for."""
    found = (path for path in STATIC.rglob("*") if path.is_file() and path.suffix in _TYPES)
    return frozenset(path.relative_to(STATIC).as_posix() for path in found)
