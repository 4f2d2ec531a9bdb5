"""Pages for people: one module each, with a router that is listed here.

Handlers call the functions that the API calls, and render their results with templates.
"""

from fastapi import APIRouter

from sfumato.server.pages import (
    asking,
    entering,
    ledger,
    overview,
    register,
    releases,
    respondents,
    signing_in,
    static_files,
    surveys,
    tables,
)
from sfumato.server.pages.results import models, streams, synthetic
from sfumato.server.pages.teaching import learn, promise
from sfumato.server.pages.working import quotas, requests

ROUTERS: tuple[APIRouter, ...] = (
    static_files.router,
    signing_in.router,
    entering.router,
    overview.router,
    tables.router,
    asking.router,
    releases.router,
    ledger.router,
    respondents.router,
    surveys.router,
    register.router,
    models.router,
    synthetic.router,
    streams.router,
    requests.router,
    quotas.router,
    learn.router,
    promise.router,
)
"""Every router of the pages, in the order in which addresses are matched."""
