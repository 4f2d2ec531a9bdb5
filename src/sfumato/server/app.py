"""The application: every router of the API and the pages, with what stands around them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi

from sfumato.ledger.history import BudgetHistory
from sfumato.server import api, pages
from sfumato.server.context import ServerContext
from sfumato.server.jobs.runner import JobRunner
from sfumato.server.jobs.store import JobStore
from sfumato.server.keeping import ReleaseStore
from sfumato.server.limits import RequestGuard
from sfumato.server.observing import RequestCounters
from sfumato.server.pages.rehearsing import Rehearsals
from sfumato.server.pages.rendering import write_problem_page
from sfumato.server.people import PeopleStore
from sfumato.server.problems import ProblemBody, add_problem_handlers
from sfumato.server.rates import QuestionTurns, RequestRates
from sfumato.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from sfumato.lab.lab import Lab

_ABOUT = """
Questions about protected tables, with a price that is known and charged before anything is read.

Send `Authorization: Bearer sfu_…`. Errors are `application/problem+json` with a stable `code`.
A release with the same `key` and question is charged once, however often it is sent.
"""
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemBody, "description": said}
    for status, said in {
        400: "The request cannot be right",
        401: "No valid token",
        403: "Refused by a role, by a budget, or by what the steward declared",
        404: "There is no such thing",
        409: "The key was used for another question",
        413: "Too large",
        422: "Charged and not answered; the sentence is the same whatever the reason",
        429: "Too many requests",
        503: "The ledger, a disk or an engine is out of reach; nothing was charged",
    }.items()
}


def create_app(lab: Lab, settings: ServerSettings | None = None) -> FastAPI:
    """Return the application for a lab. Each server process makes its own."""
    settings = settings or ServerSettings()
    jobs = JobStore(lab.folder)
    context = ServerContext(
        lab,
        settings,
        PeopleStore(lab.folder / "people.sqlite"),
        ReleaseStore(lab.folder / "releases.sqlite"),
        RequestRates(settings),
        QuestionTurns(settings.most_questions),
        RequestCounters(settings.metrics_folder),
        jobs,
        JobRunner(lab.folder, jobs),
    )
    app = FastAPI(
        title="sfumato",
        description=_ABOUT,
        version="1",
        openapi_url=None,  # api/visitors.py has a route for it, with roles like every other
        docs_url=None,  # its page would load programs from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.context = context
    app.openapi = partial(describe_api, app)  # type: ignore[method-assign]
    app.state.rehearsals = Rehearsals()
    app.state.budget_history = BudgetHistory(lab.ledger)
    app.state.render_problem = write_problem_page
    for router in api.ROUTERS:
        app.include_router(router, responses=_PROBLEMS)
    for router in pages.ROUTERS:
        app.include_router(router, include_in_schema=False)
    add_problem_handlers(app)
    app.add_middleware(RequestGuard, context=context)
    return app


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, with how to send a token."""
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemes = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "sfu_…"}}
        described.setdefault("components", {})["securitySchemes"] = schemes
        app.openapi_schema = described | {"security": [{"token": []}, {}]}
    return app.openapi_schema


def close_context(context: ServerContext) -> None:
    """Close the files of a server and end its workers."""
    context.runner.close()
    for each in (context.jobs, context.people, context.releases, context.counters, context.lab):
        each.close()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ServerContext = app.state.context
    # The engine and the process that forks workers are there before the first question, and once.
    await run_in_threadpool(context.lab.session, hostile=True)
    context.runner.start()
    yield
    app.state.rehearsals.close()
    await run_in_threadpool(close_context, context)
