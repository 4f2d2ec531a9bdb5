"""Work around questions on a server: prices of many questions, and requests for budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.lab.remote.connection import quote_path
from sfumato.lab.work.planning import PlannedQuestion, PopulationTotal, WorkPlan
from sfumato.lab.work.requests import BudgetRequest
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.lab.remote.connection import Connection


@dataclass(frozen=True, slots=True)
class RemoteRequest(BudgetRequest):
    """A request for budget, in the hands of the analyst who made it."""

    connection: Connection = field(repr=False, compare=False)

    __repr__ = BudgetRequest.__repr__

    def withdraw(self) -> BudgetRequest:
        """Take the request back, unless it was answered."""
        said = self.connection.post(f"/api/requests{quote_path(str(self.number))}/withdraw", {})
        return read_request(said, self.connection)


def read_request(said: Mapping[str, Any], connection: Connection) -> RemoteRequest:
    """Return a request for budget as the server has it."""
    granted = said["granted"]
    names = ("analyst", "reason", "day", "state", "note", "answered")
    return RemoteRequest(
        number=said["request"],
        asked=Budget.from_dict(said["asked"]),
        granted=None if granted is None else Budget.from_dict(granted),
        **{name: said[name] for name in names},
        connection=connection,
    )


def read_plan(said: Mapping[str, Any]) -> WorkPlan:
    """Return the prices of many questions, each and together."""
    questions = tuple(
        PlannedQuestion(
            each["question"],
            each["price"],
            each["free"],
            each["expected_error"],
            tuple(each.get("errors", ())),
        )
        for each in said["questions"]
    )
    totals = tuple(
        PopulationTotal(each["population"], each["share"], each["left"], each["left_after"])
        for each in said["totals"]
    )
    return WorkPlan(questions, totals)
