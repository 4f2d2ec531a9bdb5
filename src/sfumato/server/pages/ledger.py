"""The ledger: its entries with a filter, whether its chain holds, and the export."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from sfumato.errors import SfumatoError
from sfumato.ledger.chain import Entry, read_body
from sfumato.privacy.exact import format_short
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render
from sfumato.server.steward.ledger import export_ledger

router = APIRouter()

Reader = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]
Text = Annotated[str, Query(max_length=200)]

SHOWN = 100
"""Entries on one page, newest first."""
KINDS = (
    "charge",
    "release",
    "reserve",
    "draw",
    "return",
    "account",
    "grant",
    "snapshot",
    "unread",
    "resume",
    "lab",
)


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


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """Which entries are shown."""

    kind: str = ""
    who: str = ""
    text: str = ""
    before: int = 0
    """Only entries below this number; 0 for all."""

    def admits(self, line: EntryLine) -> bool:
        """Return whether an entry is shown."""
        words = f"{line.about} {line.spend} {line.hash}".casefold()
        return (
            self.kind in ("", line.kind)
            and self.who.strip().casefold() in line.who.casefold()
            and self.text.strip().casefold() in words
            and (not self.before or line.seq < self.before)
        )


@router.get("/ledger")
def show_ledger(
    request: Request,
    visitor: Reader,
    context: Context,
    kind: Text = "",
    who: Text = "",
    text: Text = "",
    before: Annotated[int, Query(ge=0, le=2**53)] = 0,
    verify: Text = "",
) -> HTMLResponse:
    """Return the newest entries that a filter admits, and on request whether the whole chain holds."""
    asked = LedgerFilter(kind if kind in KINDS else "", who, text, before)
    lines, total = list_entries(context.lab.ledger.read_entries(), asked)
    facts: dict[str, Any] = {"verified": None, "problem": None}
    if verify:
        try:
            facts["verified"] = context.lab.verify()
        except SfumatoError as problem:
            facts["problem"] = problem
    return render(
        request,
        visitor,
        "ledger.html",
        lines=lines,
        total=total,
        asked=asked,
        kinds=KINDS,
        shown=SHOWN,
        **facts,
    )


@router.get("/ledger/export")
def download_ledger(visitor: Reader, context: Context) -> StreamingResponse:
    """Return every entry as JSON lines for an independent verifier."""
    headers = {"Content-Disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(export_ledger(context), media_type="application/x-ndjson", headers=headers)


def list_entries(entries: Iterator[Entry], asked: LedgerFilter) -> tuple[list[EntryLine], int]:
    """Return the newest entries that are admitted, newest first, and how many entries there are in all."""
    newest: deque[EntryLine] = deque(maxlen=SHOWN)
    total = 0
    for entry in entries:
        total += 1
        line = describe_entry(entry)
        if asked.admits(line):
            newest.append(line)
    return list(reversed(newest)), total


def describe_entry(entry: Entry) -> EntryLine:
    """Return an entry as people read it."""
    fields = read_body(entry.body)
    about = fields.get("about")
    day = str(fields.get("at", ""))
    if not isinstance(about, dict):
        said = _write_terms(fields) if entry.kind in ("account", "grant") else entry.summarize()
        return EntryLine(entry.seq, entry.kind, day, "", said, "", entry.hash)
    said = str(about.get("question") or about.get("series") or entry.summarize())
    steps = f", {fields['steps']} steps" if "steps" in fields else ""
    who = str(about.get("analyst") or "steward")
    spend = f"{about.get('spend', '')}{steps}"
    return EntryLine(entry.seq, entry.kind, day, who, said, spend, entry.hash)


def _write_terms(fields: dict[str, Any]) -> str:
    """Return the limits that an entry sets, in words."""
    budget = fields["budget"]
    epsilon, delta = (format_short(Fraction(budget.get(name, "0"))) for name in ("epsilon", "delta"))
    return f"{fields['account']}: ε = {epsilon}" + (f", δ = {delta}" if delta != "0" else "")
