"""The promise page, for everyone: what is promised to the people in the tables, and what is not."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from sfumato.errors.numbers import format_number
from sfumato.privacy.explain import ALREADY_KNOWN, SMOKER, explain
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.promise import describe_promise, draw_odds, parse_baseline, parse_people
from sfumato.server.pages.rendering import render
from sfumato.viz.icons import icon_key

router = APIRouter()


@router.get("/promise", response_class=HTMLResponse)
def show_promise(
    request: Request,
    visitor: Annotated[Visitor, Depends(allow(Role.PUBLIC))],
    context: Annotated[ServerContext, Depends(get_context)],
    baseline: Annotated[str, Query(max_length=20)] = "10",
    people: Annotated[str, Query(max_length=20)] = "100000",
) -> HTMLResponse:
    """Return the page, with pictures for the baseline and the number of people that the reader set."""
    told = describe_promise(context.lab, parse_baseline(baseline))
    counted = parse_people(people)
    return render(
        request,
        visitor,
        "promise.html",
        promise=told,
        baseline=format_number(100 * told.baseline, 6),
        people=counted,
        sacrifices=[
            (each.population, explain(each.budget.epsilon, each.budget.delta, people=counted).sacrifice)
            for each in told.populations
            if each.budget.delta
        ],
        smoker=SMOKER,
        already_known=ALREADY_KNOWN,
        draw_odds=draw_odds,
        icon_key=icon_key,
    )
