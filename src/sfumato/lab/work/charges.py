"""Charges for releases that were made with another tool, so that one ledger knows all that was spent.

A charge is followed by a release entry like that of any answer. What the release commits to is the charge's
own description, so a charge of this kind never looks like a question that was charged and cut off.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.grants import find_quota_holder
from sfumato.curator.payer import list_accounts
from sfumato.errors import LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Released
from sfumato.ledger.chain import hash_text, read_body
from sfumato.privacy.account import price
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import Event, from_dict
from sfumato.privacy.events.event import require_event
from sfumato.privacy.neighbours import Neighbours, common_relation, require_relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.ledger import Ledger

SOURCE = "external"
"""What the description of such a charge says, in the ledger, about where the release was made."""
MAX_ABOUT = 500
"""Most characters of a description."""
MAX_EVENT = 100_000
"""Most characters that the canonical form of an event may have."""
_TAG = "sfumato external charge 1"


@dataclass(frozen=True, slots=True)
class ExternalCharge:
    """A release made with another tool, as the ledger has charged it."""

    entry: int
    population: str
    about: str
    event: Event
    day: str | None = None
    """When it was charged, in UTC; None right after the charge, which does not read it back."""
    analyst: str = ""
    replayed: bool = False
    """Whether the same key had paid for it before, so that this call cost nothing."""

    def __str__(self) -> str:
        when = "" if self.day is None else f" on {self.day}"
        again = ", charged before under the same key" if self.replayed else ""
        return f"entry {self.entry}: {self.about}, charged to {self.population}{when}{again}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "entry": self.entry,
            "population": self.population,
            "about": self.about,
            "event": self.event.to_dict(),
            "day": self.day,
            "analyst": self.analyst,
            "replayed": self.replayed,
        }


@dataclass(frozen=True, slots=True)
class ForeignRelease:
    """What is to be charged: an event, whom it concerns, what it was, and who pays beside the population."""

    event: Event
    population: str
    about: str
    neighbours: Neighbours
    analyst: str | None
    key: str | None

    def make_charge(self, contents: CatalogContents, relation: str) -> Charge:
        """Return the charge. Without a key each one is new, since equal runs of a tool are two releases."""
        holder = None if self.analyst is None else find_quota_holder(contents.grants, self.analyst)
        accounts = list_accounts(self.population, holder)
        described: dict[str, Any] = {
            "analyst": self.analyst or "",
            "question": self.about,
            "source": SOURCE,
            "event": self.event.to_dict(),
        }
        once = {"key": self.key} if self.key is not None else {"nonce": secrets.token_hex(16)}
        asked = {"": _TAG, "about": described, "accounts": sorted(accounts), "relation": relation, **once}
        request = hash_text(canonical_json(asked))
        return Charge(accounts, price(self.event), request, described, key=self.key, neighbours=relation)


def charge_foreign_release(
    ledger: Ledger, contents: CatalogContents, asked: ForeignRelease
) -> ExternalCharge:
    """Charge the ledger, durably, and return what was charged; or refuse and charge nothing."""
    relation = _find_relation(contents, asked)
    charge = asked.make_charge(contents, relation)
    released = _settle(ledger, charge)
    return ExternalCharge(
        released.seq,
        asked.population,
        asked.about,
        asked.event,
        analyst=asked.analyst or "",
        replayed=released.replayed,
    )


def parse_foreign_release(
    event: Any,
    population: Any,
    about: Any,
    neighbours: Any,
    analyst: str | None,
    key: str | None,
) -> ForeignRelease:
    """Return what is to be charged, checked; only events that can be read back from a ledger are taken."""
    require_relation(neighbours)
    if not isinstance(about, str) or not about.strip() or len(about) > MAX_ABOUT:
        raise UsageError(
            "SF-P113",
            f"Say what was released, in at most {MAX_ABOUT} characters.",
            try_='about="an Opacus run of March"',
        )
    if not isinstance(population, str) or not population or ":" in population:
        raise UsageError(
            "SF-U104",
            "A charge names a population.",
            try_='population="patient_id", as lab.populations() says',
        )
    return ForeignRelease(_rebuild(event), population, about.strip(), neighbours, analyst, key)


def list_foreign_releases(ledger: Ledger) -> Iterator[ExternalCharge]:
    """Yield the charges for releases made with other tools, oldest first."""
    for entry in ledger.read_entries():
        fields = read_body(entry.body) if entry.kind == "charge" else {}
        about = fields.get("about", {})
        if isinstance(about, dict) and about.get("source") == SOURCE:
            population = next(name for name in fields["accounts"] if name.startswith("population:"))
            yield ExternalCharge(
                entry.seq,
                population.partition(":")[2],
                about["question"],
                from_dict(about["event"]),
                fields.get("at"),
                about["analyst"],
            )


def _rebuild(event: Any) -> Event:
    """Return the event as a ledger would read it back, so that no class of the caller's states a price."""
    fields = require_event(event).to_dict()
    if len(canonical_json(fields)) > MAX_EVENT:
        raise UsageError(
            "SF-L302",
            "The description of this event is too long for the ledger.",
            try_="sf.privacy.Repeated(event, times) for equal steps, or several charges",
        )
    return from_dict(fields)


def _find_relation(contents: CatalogContents, asked: ForeignRelease) -> str:
    """Return what the neighbours differ in, as the account names it; refuse a price for others."""
    common_relation([asked.neighbours, asked.event.neighbours])
    known = contents.relations.get(asked.population, asked.neighbours)
    if known is not asked.neighbours:
        # A replacement removes one unit and adds one.
        advice = "sf.privacy.group(event, 2), with neighbours=sf.REPLACE_ONE"
        raise PolicyError(
            "SF-N303",
            f"'{asked.population}' is counted for other neighbours than this release.",
            known=known.value,
            got=asked.neighbours.value,
            try_=advice
            if known is Neighbours.REPLACE_ONE
            else "a release that was made for add-remove neighbours",
        )
    tables = (table for table in contents.tables.values() if table.population == asked.population)
    # Edges of a graph have accounts whose relation says so.
    return next((table.relation for table in tables), asked.neighbours.value)


def _settle(ledger: Ledger, charge: Charge) -> Released:
    """Charge and keep the description as the answer. After a crash between the two, the same key goes on."""
    answer = canonical_json({"about": charge.about})
    was_charged = ledger.find_charge(charge) is not None
    # Everyone who holds the charge would keep the same answer, so an open one may be taken over.
    charged = ledger.charge(charge, take_over=True)
    if isinstance(charged, Released):
        return charged
    try:
        return replace(ledger.release(charged, answer), replayed=was_charged)
    except LedgerError:
        # Another call with the same key may have kept it meanwhile.
        kept = ledger.find_release(charge.request)
        if kept is None:
            raise
        return kept
