"""A published answer, as everyone may read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sfumato.curator.answers.release import Release
from sfumato.curator.lower.relations import list_names
from sfumato.curator.payer import Payer, find_kept
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.errors import PolicyError, SfumatoError
from sfumato.lab.query import choose_spend

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.publications import Publication
    from sfumato.curator.payer import LabAccess, Spending
    from sfumato.lab.synthetic.published_table import PublishedTable


def list_publications(lab: LabAccess) -> tuple[Published | PublishedTable, ...]:
    """Return what the steward published: questions, then synthetic tables, each in their order."""
    from sfumato.lab.synthetic.published_table import list_published

    return (*(Published(lab, each) for each in lab.publications()), *list_published(lab))


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

    @property
    def day(self) -> date | None:
        """When it was published, in UTC; None if it is older than such dates."""
        return self.publication.day

    @property
    def is_current(self) -> bool:
        """Whether the tables still have the snapshots that the answer is about."""
        known = self.lab.contents.tables
        then = self.publication.tables
        return bool(then) and all(
            name in known and known[name].snapshot_name == table.snapshot_name for name, table in then.items()
        )

    @property
    def heading(self) -> str:
        """The question, when it was published, and whether the data have changed since."""
        on = "" if self.day is None else f"published {self.day}"
        changed = "" if self.is_current or not self.publication.tables else "the table has changed since"
        said = "; ".join(filter(None, (on, changed)))
        return f"{self.text}\n({said})" if said else self.text

    def read(self) -> Release:
        """Return the kept answer. Nothing here can charge: it is looked up, or it is refused."""
        from sfumato.queries.sql import parse_question  # sqlglot comes with the first question

        asked = parse_question(self.text, partial(list_names, tables=self._find_table))
        resolved = ResolvedQuestion(self._find_table, asked)
        spend = choose_spend(Payer(self.lab, None), resolved, cast("Spending", dict(self.spend)))
        plan = price_question(resolved, spend)
        kept = find_kept(self.lab.ledger, plan)
        # The plan says how to read the answer, so it must be the very question that was published.
        if kept is None or plan.request != self.publication.request:
            raise PolicyError(
                "SF-C135",
                "The table has a new snapshot since this was published.",
                why="what was promised about it then is needed to read the answer",
                try_="ask the steward to publish it again",
            )
        return Release(plan, kept)

    def describe(self) -> dict[str, Any]:
        """Return the question and its answer, or why it cannot be read, ready for JSON."""
        fields: dict[str, Any] = {"question": self.text, "current": self.is_current}
        fields["published"] = None if self.day is None else self.day.isoformat()
        try:
            return fields | {"answer": self.read().to_dict()}
        except SfumatoError as problem:
            return fields | {"error": problem.to_dict()}

    def __str__(self) -> str:
        try:
            return f"{self.heading}\n{self.read()}"
        except SfumatoError as problem:
            return f"{self.heading}\n{problem}"

    def __repr__(self) -> str:
        return f"Published({self.text!r}); .read() gives the answer"

    def _find_table(self, name: str) -> Table:
        """Return what was declared about a table when this was published, or is now for older files."""
        then = {each.casefold(): table for each, table in self.publication.tables.items()}
        return then.get(name.casefold()) or self.lab.table(name)
