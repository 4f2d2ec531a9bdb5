"""Pages for people: one module each, with a router that is listed here.

Handlers call the functions that the API calls, and render their results with templates.
"""

from fastapi import APIRouter

from sfumato.server.pages import asking, ledger, overview, releases, signing_in, static_files, tables

ROUTERS: tuple[APIRouter, ...] = (
    static_files.router,
    signing_in.router,
    overview.router,
    tables.router,
    asking.router,
    releases.router,
    ledger.router,
)
"""Every router of the pages, in the order in which addresses are matched."""
