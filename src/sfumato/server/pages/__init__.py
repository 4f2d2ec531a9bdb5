"""Pages for people: one module each, with a router that is listed here.

Handlers call the functions that the API calls, and render their results with templates.
"""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
"""Every router of the pages, in the order in which addresses are matched."""
