"""What a steward does around questions: charges for other tools, requests for budget, and packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.files.disk_errors import name_disk_errors
from sfumato.lab.work.charges import (
    ExternalCharge,
    charge_foreign_release,
    list_foreign_releases,
    parse_foreign_release,
)
from sfumato.lab.work.requests import RequestDesk
from sfumato.lab.work.store import WorkStore
from sfumato.privacy.neighbours import ADD_REMOVE

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.curator.answers.release import Release
    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.lab.publications.published import Published
    from sfumato.lab.synthetic.published_table import PublishedTable
    from sfumato.lab.work.requests import ReceivedRequest, SentRequest
    from sfumato.ledger import Ledger
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number
    from sfumato.privacy.neighbours import Neighbours


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
        key: str | None = None,
    ) -> ExternalCharge:
        """Charge a population for a release that was made with another tool. Return what was charged.

        `event` is what was released, such as sf.privacy.Gaussian(sigma=2), with noise over sensitivity, or
        sf.privacy.ApproxDP(1, 1e-6) where only (ε, δ) is known. `neighbours` says what it was proven for.
        With `analyst` their quota pays too. Repeated with the same `key` it is charged once;
        without a key every call is a charge of its own. Nothing is charged unless all accounts hold it.
        """
        asked = parse_foreign_release(event, population, about, neighbours, analyst, key)
        return charge_foreign_release(self.ledger, self._catalog.contents, asked)

    def charges(self) -> tuple[ExternalCharge, ...]:
        """Return the releases made with other tools that the ledger was charged for, oldest first."""
        return tuple(list_foreign_releases(self.ledger))

    # ---- packages ----

    def package(
        self,
        publication: Release | Published | PublishedTable,
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
    ) -> SentRequest:
        """Write down that an analyst asks for so much more budget, and why. Return the request.

        This is for programs that speak for people who have no quota yet; others use `s.request`.
        """
        with name_disk_errors():
            return self.request_desk.add(analyst, epsilon, delta, reason)

    @property
    def request_desk(self) -> RequestDesk:
        """Where requests are made and answered."""
        return RequestDesk(self._work, self.ledger, self._catalog, self._catalog.lock_for_change)

    @property
    def _work(self) -> WorkStore:
        return WorkStore(self.folder)
