"""What every handler needs: the lab, the settings, and who may do what."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fastapi import Request

if TYPE_CHECKING:
    from sfumato.lab.lab import Lab
    from sfumato.server.jobs.runner import JobRunner
    from sfumato.server.jobs.store import JobStore
    from sfumato.server.keeping import ReleaseStore
    from sfumato.server.observing import RequestCounters
    from sfumato.server.people import PeopleStore
    from sfumato.server.rates import QuestionTurns, RequestRates
    from sfumato.server.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What every handler needs. One is made for each server process."""

    lab: "Lab"
    settings: "ServerSettings"
    people: "PeopleStore"
    releases: "ReleaseStore"
    rates: "RequestRates"
    turns: "QuestionTurns"
    counters: "RequestCounters"
    jobs: "JobStore"
    runner: "JobRunner"


async def get_context(request: Request) -> ServerContext:
    """Return what the application was made with."""
    # It waits for nothing; a plain function would be sent to a thread and back for every request.
    return cast("ServerContext", request.app.state.context)
