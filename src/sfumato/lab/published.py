"""A published answer, as everyone may read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sfumato.curator.answers.release import Release
from sfumato.curator.payer import Payer, find_kept
from sfumato.errors import PolicyError
from sfumato.lab.query import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.publications import Publication
    from sfumato.curator.payer import LabAccess, Spending


@dataclass(frozen=True, slots=True, repr=False)
class Published:
    """A question that the steward paid for. `read()` gives its answer and never costs anything."""

    lab: LabAccess
    publication: Publication

    @property
    def text(self) -> str:
        """The question, as the steward wrote it."""
        return self.publication.text

    @property
    def spend(self) -> Mapping[str, Any]:
        """What the steward paid."""
        return self.publication.spend

    def read(self) -> Release:
        """Return the kept answer. Nothing here can charge: it is looked up, or it is refused."""
        from sfumato.queries.sql import parse_question  # sqlglot comes with the first question

        query = Query(Payer(self.lab, None), parse_question(self.text), self.text)
        plan = query.plan(cast("Spending", dict(self.spend)))
        kept = find_kept(self.lab.ledger, plan)
        # The plan says how to read the answer, so it must be the very question that was published.
        if kept is None or plan.request != self.publication.request:
            raise PolicyError(
                "SF-C134",
                "The table has a new snapshot since this was published.",
                why="what was promised about it then is needed to read the answer",
                try_="ask the steward to publish it again",
            )
        return Release(plan, kept)

    def __repr__(self) -> str:
        return f"Published({self.text!r}); .read() gives the answer"
