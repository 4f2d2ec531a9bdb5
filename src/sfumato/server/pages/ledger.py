"""The ledger: its entries with a filter, whether its chain holds, and the export."""

import io
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from sfumato.errors import SfumatoError
from sfumato.ledger.chain import Entry, read_body
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render

router = APIRouter()

SignedIn = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST, Role.AUDITOR))]
Reader = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]
Text = Annotated[str, Query(max_length=200)]

SHOWN = 100
"""Entries on one page, newest first."""
KINDS = ("charge", "release", "reserve", "draw", "return", "account", "grant", "snapshot", "unread", "resume", "lab")


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One entry of the ledger as people read it."""

    seq: int
    kind: str
    day: str
    who: str
    about: str
    spend: str
    hash: str
