"""Pages for people: one module each, with a router that is listed here.

Handlers call the functions that the API calls, and render their results with templates.
"""

from fastapi import APIRouter

from sfumato.server.pages import welcome

ROUTERS: tuple[APIRouter, ...] = (welcome.router,)
"""Every router of the pages, in the order in which addresses are matched."""
