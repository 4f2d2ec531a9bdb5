"""The JSON API: one module for each noun, with a router that is listed here.

Handlers read the request, call a function that the pages call too, and write its result.
"""

from fastapi import APIRouter

from sfumato.server import published_files
from sfumato.server.api import (
    catalog,
    charges,
    frames,
    jobs,
    ledger,
    models,
    packages,
    people,
    publications,
    questions,
    requests,
    streams,
    surveys,
    tables,
    visitors,
)

ROUTERS: tuple[APIRouter, ...] = (
    visitors.router,
    catalog.router,
    questions.router,
    frames.router,
    jobs.router,
    models.router,
    streams.router,
    ledger.router,
    people.router,
    tables.router,
    publications.router,
    surveys.router,
    requests.router,
    charges.router,
    packages.router,
    published_files.router,
)
"""Every router of the API."""
