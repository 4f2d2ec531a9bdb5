"""What a steward does around questions: charges for other tools, projects, requests, and packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.files.disk_errors import name_disk_errors
from sfumato.lab.work import projects as of_projects
from sfumato.lab.work.charges import (
    ExternalCharge,
    charge_foreign_release,
    list_foreign_releases,
    parse_foreign_release,
)
from sfumato.lab.work.requests import RequestDesk
from sfumato.lab.work.store import WorkStore
from sfumato.privacy.budget import Budget
from sfumato.privacy.neighbours import ADD_REMOVE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date
    from pathlib import Path

    from sfumato.curator.answers.release import Release
    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.lab.combined import UnionAnswer
    from sfumato.lab.published import Published
    from sfumato.lab.synthetic.published_table import PublishedTable
    from sfumato.lab.work.projects import Project
    from sfumato.lab.work.requests import ReceivedRequest, SentRequest
    from sfumato.ledger import Ledger
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number
    from sfumato.privacy.neighbours import Neighbours

_UNSAID: Any = object()


class WorkDesk:
    """The part of a lab that is about people and their work. `Lab` is one."""

    folder: Path
    ledger: Ledger
    _catalog: Catalog

    # ---- releases made with other tools ----

    def charge(
        self,
        event: Event,
        *,
        population: str,
        about: str,
        neighbours: Neighbours = ADD_REMOVE,
        analyst: str | None = None,
        project: str | None = None,
        key: str | None = None,
    ) -> ExternalCharge:
        """Charge a population for a release that was made with another tool. Return what was charged.

        `event` is what was released, such as sf.privacy.Gaussian(sigma=2), with noise over sensitivity, or
        sf.privacy.ApproxDP(1, 1e-6) where only (ε, δ) is known. `neighbours` says what it was proven for.
        With `analyst` or `project` their quota pays too. Repeated with the same `key` it is charged once;
        without a key every call is a charge of its own. Nothing is charged unless all accounts hold it.
        """
        asked = parse_foreign_release(event, population, about, neighbours, analyst, project, key)
        if project is not None:
            of_projects.find_project(self._work, self.ledger, project)
        return charge_foreign_release(self.ledger, self._catalog.contents, asked)

    def charges(self) -> tuple[ExternalCharge, ...]:
        """Return the releases made with other tools that the ledger was charged for, oldest first."""
        return tuple(list_foreign_releases(self.ledger))

    # ---- projects ----

    def create_project(
        self,
        name: str,
        *,
        purpose: str,
        epsilon: Number,
        delta: Number = 0,
        members: Iterable[str],
        until: date | str | None = None,
        tables: Iterable[str] | None = None,
    ) -> Project:
        """Let people work on one purpose with a quota of its own, until a day. Return the project.

        `lab.session("ada", project=name)` spends the project's quota and the population's budget, and nothing
        of ada's own quota, which she need not have. `until` is the last day, in UTC. With `tables` its
        members may ask about these alone.
        """
        terms: dict[str, Any] = {"purpose": purpose, "members": members, "until": until, "tables": tables}
        with name_disk_errors(), self._catalog.lock_for_change():
            of_projects.create_project(
                self._work, self.ledger, self._catalog, name, Budget(epsilon, delta), **terms
            )
        return self.project(name)

    def change_project(
        self,
        name: str,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        members: Iterable[str] = _UNSAID,
        until: date | str | None = _UNSAID,
        tables: Iterable[str] | None = _UNSAID,
    ) -> Project:
        """Change what is said here of a project, also for open sessions; the rest stays. Return the project.

        With `epsilon` its quota on every population of its tables becomes this one. What was spent stays
        spent.
        """
        said = {"members": members, "until": until, "tables": tables}
        changed = {key: value for key, value in said.items() if value is not _UNSAID}
        quota = None if epsilon is None else Budget(epsilon, delta)
        with name_disk_errors(), self._catalog.lock_for_change():
            of_projects.change_project(self._work, self.ledger, self._catalog, name, quota, changed)
        return self.project(name)

    def close_project(self, name: str) -> Project:
        """End a project for ever, also for open sessions. What was spent stays spent. Return the project."""
        with name_disk_errors(), self._catalog.lock_for_change():
            of_projects.close_project(self._work, self.ledger, name)
        return self.project(name)

    def project(self, name: str) -> Project:
        """Return a project with what is left of its quotas."""
        return of_projects.find_project(self._work, self.ledger, name)

    def projects(self, member: str | None = None) -> tuple[Project, ...]:
        """Return every project with what is left of its quotas, or those of one member."""
        return of_projects.list_projects(self._work, self.ledger, member)

    # ---- packages ----

    def package(
        self,
        publication: Release | UnionAnswer | Published | PublishedTable,
        target: str | Path,
        *,
        title: str = "",
        contact: str = "",
        proofs: str = "docs/proofs/",
    ) -> Path:
        """Write a publication with a methods paragraph, a card and receipts to a new folder or .zip file.

        Nothing is charged and no row is read: it holds what was declared and released. `proofs` is the
        address of the proof notes, as the package should name it. Returns where it is.
        """
        from sfumato.lab.work.packages import make_package

        lab: Any = self
        with name_disk_errors():
            return make_package(lab, publication, target, title, contact, proofs)

    # ---- requests ----

    def requests(self) -> tuple[ReceivedRequest, ...]:
        """Return every request for budget, oldest first; `.grant()` or `.decline(why)` answers one."""
        return self.request_desk.list_received()

    def request(
        self,
        analyst: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        reason: str,
        project: str | None = None,
    ) -> SentRequest:
        """Write down that an analyst asks for so much more budget, and why. Return the request.

        This is for programs that speak for people who have no quota yet; others use `s.request`.
        """
        with name_disk_errors():
            return self.request_desk.add(analyst, project, epsilon, delta, reason)

    @property
    def request_desk(self) -> RequestDesk:
        """Where requests are made and answered."""
        return RequestDesk(self._work, self.ledger, self._catalog, self._catalog.lock_for_change)

    @property
    def _work(self) -> WorkStore:
        return WorkStore(self.folder)
