"""The overview: what is left of every budget and how it was spent, the latest answers, and open requests."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato import viz
from sfumato.curator.payer import population_account
from sfumato.errors.numbers import format_number
from sfumato.lab.budget_view import AccountView
from sfumato.lab.work.requests import OPEN, BudgetRequest
from sfumato.ledger.api import parse_account
from sfumato.ledger.history import BudgetHistory, BudgetPoint
from sfumato.server.access import Role, Visitor, allow, open_session_if_any
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.release_view import list_release_lines
from sfumato.server.pages.rendering import render, show_left
from sfumato.viz import Chart

router = APIRouter()

SignedIn = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]

LATEST = 8
"""Answers that the overview shows."""


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """One budget as a bar, in shares of the whole and in words."""

    label: str
    spent: float
    reserved: float
    words: str


@dataclass(frozen=True, slots=True)
class BurnDown:
    """How the budget of one population was spent."""

    population: str
    picture: Chart
    points: tuple[BudgetPoint, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the points as the cells of a table."""
        return [
            (str(each.charges), str(each.entry or "–"), each.day or "–", show_left(each.left_epsilon))
            for each in self.points
        ]


@router.get("/", response_model=None)
def show_overview(request: Request, visitor: SignedIn, context: Context) -> HTMLResponse | RedirectResponse:
    """Return the overview of a steward or an analyst; auditors begin with the ledger."""
    if visitor.role is Role.AUDITOR:
        return RedirectResponse("/ledger", 303)
    session = open_session_if_any(context, visitor)
    accounts = () if session is None else session.budget.accounts
    history: BudgetHistory = request.app.state.budget_history
    promised = _sum_promises(context) if visitor.role is Role.STEWARD else {}
    facts: dict[str, Any] = {
        "bars": [draw_bar(each, promised.get(each.name, 0.0), visitor.analyst) for each in accounts],
        "shows_promises": visitor.role is Role.STEWARD,
        "curves": [_trace(history, each) for each in accounts if parse_account(each.name)[1] is None],
        "tables": () if session is None else session.tables.tables,
        "odometers": [f"{each.name.partition(':')[2]}: {each.spent}" for each in accounts],
        "lifetimes": [] if session is None else [each.sentence() for each in session.budget.lifetimes],
        "has_quota": session is not None,
        "releases": list_release_lines(context, visitor, LATEST),
        "requests": list_open_requests(context, visitor),
    }
    return render(request, visitor, "overview.html", **facts)


def draw_bar(account: AccountView, promised: float, analyst: str | None) -> BudgetBar:
    """Return an account as a bar. What is promised to analysts is shown up to what is left."""
    population, owner = parse_account(account.name)
    spent = 1 - account.left_epsilon / account.epsilon if account.epsilon else 1.0
    reserved = min(promised, account.left_epsilon) / account.epsilon if account.epsilon else 0.0
    left, whole = show_left(account.left_epsilon), format_number(account.epsilon)
    words = f"ε = {left} of {whole} left"
    if account.delta:
        words += f", δ = {format_number(account.delta, 3)}"
    if promised:
        over = " (more than is left: first come, first served)" if promised > account.left_epsilon else ""
        words += f"; ε = {format_number(promised)} of it promised to analysts{over}"
    whose = (
        "Population" if owner is None else ("Your quota on" if owner == analyst else f"Quota of {owner} on")
    )
    return BudgetBar(f"{whose} {population}", min(1.0, max(0.0, spent)), reserved, words)


def _sum_promises(context: ServerContext) -> dict[str, float]:
    """Return for each population's account what analysts may still spend of it by their quotas."""
    total: dict[str, float] = {}
    for quota in (quota for analyst in context.lab.analysts() for quota in analyst.quotas):
        account = population_account(parse_account(quota.name)[0])
        total[account] = total.get(account, 0.0) + quota.left_epsilon
    return total


def _trace(history: BudgetHistory, account: AccountView) -> BurnDown:
    points = history.trace(account.name)
    population = parse_account(account.name)[0]
    picture = viz.burn_down(
        [point.charges for point in points],
        [point.left_epsilon for point in points],
        cap=account.epsilon,
        title=f"{population}: ε left after each charge",
    )
    return BurnDown(population, picture, points)


def list_open_requests(context: ServerContext, visitor: Visitor) -> list[BudgetRequest]:
    """Return the requests for budget that wait: an analyst's own, or for a steward everyone's."""
    desk, name = context.lab.request_desk, visitor.analyst
    found = desk.list_received() if name is None else desk.list_sent(name)
    return [each for each in found if each.state == OPEN]
