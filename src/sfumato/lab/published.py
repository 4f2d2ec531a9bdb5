"""A published answer, as everyone may read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.release import Release
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.publications import Publication
    from sfumato.lab.lab import Lab


@dataclass(frozen=True, slots=True, repr=False)
class Published:
    """A question that the steward paid for. `read()` gives its answer and never costs anything."""

    lab: Lab
    publication: Publication

    @property
    def text(self) -> str:
        return self.publication.text

    @property
    def spend(self) -> Mapping[str, Any]:
        return self.publication.spend

    def read(self) -> Release:
        """The kept answer. Nothing here can charge: it is looked up, or it is refused."""
        plan = self.lab.session().sql(self.text).quote(**self.spend).plan
        kept = self.lab.ledger.find_release(self.publication.request)
        if kept is None or plan.request != self.publication.request:
            raise PolicyError(
                "SF-C134",
                "The table has moved on since this was published.",
                why="what was promised about it then is needed to read the answer",
                try_="ask the steward to publish it again",
            )
        return Release(plan, kept)

    def __repr__(self) -> str:
        return f"Published({self.text!r}); .read() gives the answer"
