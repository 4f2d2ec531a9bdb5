"""A lab as a member of a project sees it: the project's tables, and its ledger while the project is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.curator.payer import quota_account
from sfumato.lab.analysts import GrantedLab
from sfumato.lab.work.projects import require_open_project
from sfumato.ledger.api import name_project

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.lab.work.store import WorkStore
    from sfumato.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ProjectLab(GrantedLab):
    """A lab in which a member works on a project; without a member's name, its steward does."""

    store: WorkStore
    project: str
    member: str | None

    @property
    def ledger(self) -> Ledger:
        """The ledger. Nothing can be charged without asking for it, so members and days are checked here."""
        require_open_project(self.store, self.project, self.member)
        return self.lab.ledger

    def _may_ask(self, table: Table) -> bool:
        if table.is_public:
            return True
        project = require_open_project(self.store, self.project, self.member)
        account = quota_account(table.population, name_project(self.project))
        listed = project.tables is None or table.name in project.tables
        return listed and account in self.lab.ledger.list_accounts()
