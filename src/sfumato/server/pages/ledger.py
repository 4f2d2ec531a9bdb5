"""The ledger: its entries with a filter, whether its chain holds, and the export."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_number
from sfumato.ledger import Ledger
from sfumato.ledger.chain import Entry, read_body
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render
from sfumato.server.steward.ledger import export_ledger

if TYPE_CHECKING:
    from sfumato.ledger.history import BudgetHistory

router = APIRouter()

Reader = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]
Text = Annotated[str, Query(max_length=200)]

SHOWN = 100
"""Entries on one page, newest first."""
READ_AT_ONCE = 500
MOST_READ = 20_000
"""Entries that one view looks at; a filter that admits few of them is looked for further on the next page."""
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
    history: BudgetHistory = request.app.state.budget_history
    total = history.count_entries()
    lines, reached = list_entries(context.lab.ledger, total, asked)
    facts: dict[str, Any] = {"lines": lines, "reached": reached, "total": total, "asked": asked}
    verified, problem = None, None
    if verify:
        try:
            verified = context.lab.verify()
        except SfumatoError as found:
            problem = found
    facts |= {"verified": verified, "kinds": KINDS}
    return render(request, visitor, "ledger.html", status=200, problem=problem, **facts)


@router.get("/ledger/export")
def download_ledger(visitor: Reader, context: Context) -> StreamingResponse:
    """Return every entry as JSON lines for an independent verifier."""
    headers = {"Content-Disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(export_ledger(context), media_type="application/x-ndjson", headers=headers)


def list_entries(ledger: Ledger, total: int, asked: LedgerFilter) -> tuple[list[EntryLine], int]:
    """Return the newest entries that are admitted, newest first, and down to which entry was looked.

    Entries are read from the end, some at a time, so that the newest cost little however long the chain is.
    """
    found: list[EntryLine] = []
    top = min(total, asked.before - 1) if asked.before else total
    lowest = max(0, top - MOST_READ)
    while top > lowest and len(found) < SHOWN:
        after = max(lowest, top - READ_AT_ONCE)
        some = list(islice(ledger.read_entries(after), top - after))
        found += [line for line in map(describe_entry, reversed(some)) if asked.admits(line)]
        top = after
    shown = found[:SHOWN]
    return shown, shown[-1].seq if len(found) > SHOWN else top + 1


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
    epsilon, delta = (format_number(Fraction(budget.get(name, "0"))) for name in ("epsilon", "delta"))
    return f"{fields['account']}: ε = {epsilon}" + (f", δ = {delta}" if delta != "0" else "")
