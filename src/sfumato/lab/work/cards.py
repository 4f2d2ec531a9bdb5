"""What a publication says about its privacy: a paragraph for the methods section, and a card for a registry.

All of it comes from what was declared, from the ledger, and from what was released.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sfumato.errors.numbers import format_decimal, format_number
from sfumato.privacy.conversion import renyi_epsilon
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.risk import event_success

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.privacy.budget import Budget

FORMAT = "sfumato deployment card 1"
_MECHANISMS: dict[str, tuple[str, str]] = {
    "pure": ("an ε-DP mechanism", "events.md"),
    "laplace": ("Laplace noise", "events.md"),
    "discrete-laplace": ("discrete Laplace noise on integers", "discrete-laplace.md"),
    "spread-laplace": ("discrete Laplace noise on integers", "spread.md"),
    "k-norm": ("noise on several sums in the shape of what one row adds to them", "k-norm.md"),
    "gaussian": ("Gaussian noise rounded to a grid", "gaussian.md"),
    "concentrated": ("a ρ-zCDP mechanism", "events.md"),
    "exponential": ("exponential mechanism", "exponential.md"),
    "spread-exponential": ("exponential mechanism", "spread.md"),
    "randomized-response": ("randomized response", "randomized-response.md"),
    "approx": ("an (ε, δ)-DP mechanism", "events.md"),
    "thresholded-keys": ("key discovery by a noisy threshold", "keys.md"),
    "key-release": ("key discovery by a noisy threshold", "keys.md"),
    "best-of": ("choice of the best of several runs", "best-of.md"),
    "sampled": ("Poisson or fixed-size sampling", "sampling.md"),
    "discrete-gaussian": ("discrete Gaussian noise on integers", "claims.md"),
    "renyi-curve": ("a mechanism with a stated Rényi curve", "claims.md"),
    "privacy-profile": ("a mechanism with a stated privacy profile", "claims.md"),
    "non-private": ("a release without differential privacy", "events.md"),
}
"""Words for each kind of event, and the note that proves its price."""
_COMPOSED = frozenset({"sequential", "parallel", "repeated", "grouped"})
"""Kinds of events that are made of others, whose mechanisms are named."""
_COMPOSITION = (
    "Rényi divergences at twelve orders, Gaussian DP and pure ε, each a privacy filter under one budget"
)
_ALWAYS = ("contribution-bounds.md", "account.md", "post-processing.md", "durability.md")
"""Notes that every release rests on."""


@dataclass(frozen=True, slots=True)
class LedgerCharge:
    """A charge of the ledger, as anyone may read it in an export."""

    entry: int
    head: str
    """Hash of the entry that seals the answer, or of the charge where there is none."""
    day: str | None
    analyst: str
    spend: str
    question: str
    event: Event
    population: str


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """What is said about a publication: public facts and released ones only."""

    title: str
    what: str
    """What was released, as a noun: an answer, a synthetic table."""
    files: tuple[str, ...]
    table: str
    protects: str
    """The unit of protection in words."""
    neighbours: Neighbours | None
    budget: Budget | None
    """What the population may ever spend, which was fixed when it was registered."""
    charges: tuple[LedgerCharge, ...]
    not_covered: tuple[str, ...]
    who: str
    contact: str
    proofs: str
    """Address or folder in front of the names of proof notes."""

    @property
    def event(self) -> Event | None:
        """All that was charged for, as one event; None if it cost nothing."""
        return Sequential([each.event for each in self.charges]) if self.charges else None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Words for the mechanisms, each once."""
        found = [_MECHANISMS[tag][0] for tag in self._tags()]
        return tuple(dict.fromkeys(found))

    @property
    def notes(self) -> tuple[str, ...]:
        """The proof notes that the publication rests on."""
        found = [_MECHANISMS[tag][1] for tag in self._tags()]
        names = dict.fromkeys([*found, *(_ALWAYS if self.charges else ())])
        return tuple(f"{self.proofs}{name}" for name in names)

    def _tags(self) -> Iterator[str]:
        for charge in self.charges:
            yield from (tag for tag in _list_tags(charge.event.to_dict()) if tag not in _COMPOSED)

    def find_price(self) -> tuple[float, float]:
        """Return ε and δ of what was charged for. Where there is no pure ε, δ is the population's."""
        event = self.event
        if event is None:
            return 0.0, 0.0
        pure, side = event.pure(), event.side_delta()
        if pure is not None:
            return float(pure), float(side)
        delta = Fraction(0) if self.budget is None else self.budget.delta
        # A charge was admitted, so the budget's δ pays for Gaussian noise.
        return renyi_epsilon(event, delta), float(delta)


def write_methods(facts: PublicationFacts) -> str:
    """Return a paragraph for a methods section, in plain words with the numbers."""
    if not facts.charges:
        return (
            f"The files {', '.join(facts.files)} hold {facts.what}, which was drawn from public declarations "
            f"about '{facts.table}' alone. No row was read, so nothing was charged and no one is concerned."
        )
    epsilon, delta = facts.find_price()
    days = sorted({each.day for each in facts.charges if each.day})
    when = f" on {days[0]}" if len(days) == 1 else f" from {days[0]} to {days[-1]}" if days else ""
    how = f"with differential privacy (sfumato {_read_version()}, curator model)"
    parts = [
        f"The files {', '.join(facts.files)} hold {facts.what} from the table '{facts.table}'.",
        f"It was released{when} {how}: {escape_markup(facts.title.rstrip('.'))}.",
        f"The unit of protection is {facts.protects}. {_say_neighbours(facts.neighbours)}",
        f"Mechanism: {', '.join(facts.mechanisms)}, drawn exactly with integers.",
        f"The release costs {_say_price(epsilon, delta)}{_say_total(facts.budget)}",
        _say_risk(facts),
        f"The charge was durable in the ledger before any row was read ({_say_entries(facts)}).",
        "Intervals are at 95 % and cover the noise alone.",
    ]
    if facts.not_covered:
        parts.append(f"Not covered by them: {'; '.join(facts.not_covered)}.")
    return " ".join(part for part in parts if part)


def make_card(facts: PublicationFacts) -> dict[str, Any]:
    """Return a card for a registry of deployments, ready for JSON."""
    epsilon, delta = facts.find_price()
    budget = None if facts.budget is None else facts.budget.to_dict()
    return {
        "format": FORMAT,
        "title": facts.title,
        "released": facts.what,
        "files": list(facts.files),
        "table": facts.table,
        "model": "central (a curator holds the rows)",
        "unit_of_protection": facts.protects,
        "neighbours": None if facts.neighbours is None else facts.neighbours.value,
        "epsilon": epsilon,
        "delta": delta,
        "epsilon_is": "pure" if delta == 0 else "for this delta",
        "mechanisms": list(facts.mechanisms),
        "composition": _COMPOSITION,
        "budget_of_the_population": budget,
        "charges": [_write_charge(each) for each in facts.charges],
        "by": facts.who,
        "contact": facts.contact or None,
        "not_covered_by_intervals": list(facts.not_covered),
        "implementation": f"sfumato {_read_version()}",
        "proofs": list(facts.notes),
    }


def write_card(card: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    shown = {
        "unit of protection": card["unit_of_protection"],
        "neighbours": card["neighbours"] or "none: nothing was charged",
        "ε": format_number(card["epsilon"], 6)
        + ("" if card["delta"] == 0 else f" at δ = {format_number(card['delta'], 3)}"),
        "mechanisms": ", ".join(card["mechanisms"]) or "none",
        "composition": card["composition"],
        "budget of the population": _say_budget(card["budget_of_the_population"]),
        "released by": card["by"],
        "contact": card["contact"] or "not given",
        "on": ", ".join(dict.fromkeys(each["day"] or "an unknown day" for each in card["charges"])) or "—",
        "entries of the ledger": ", ".join(str(each["entry"]) for each in card["charges"]) or "none",
        "implementation": card["implementation"],
    }
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in shown.items()]
    proofs = [f"- {_cell(note)}" for note in card["proofs"]]
    heading = [
        f"# {_cell(card['title'])}",
        "",
        f"{_cell(card['released'])} from '{_cell(card['table'])}'.",
        "",
    ]
    return "\n".join(
        [*heading, "| | |", "|---|---|", *rows, "", "Proof notes:", "", *(proofs or ["- none"]), ""]
    )


def _read_version() -> str:
    """Return the version that is installed."""
    try:
        return version("sfumato")
    except PackageNotFoundError:
        return "from source"


def _list_tags(fields: Any) -> Iterator[str]:
    """Yield the tags of an event in its canonical form, from the outside to the inside."""
    if isinstance(fields, dict):
        yield str(fields["event"])
        for part in fields.values():
            yield from _list_tags(part)
    elif isinstance(fields, list):
        for part in fields:
            yield from _list_tags(part)


def _write_charge(charge: LedgerCharge) -> dict[str, Any]:
    return {
        "entry": charge.entry,
        "head": charge.head,
        "day": charge.day,
        "spend": charge.spend,
        "question": charge.question,
        "population": charge.population,
        "event": charge.event.to_dict(),
    }


def _say_neighbours(neighbours: Neighbours | None) -> str:
    if neighbours is Neighbours.REPLACE_ONE:
        return "Neighbouring tables differ in the rows of one unit; how many units there are is public."
    return "Neighbouring tables differ in that one unit, with all its rows, is in only one of them."


def _say_price(epsilon: float, delta: float) -> str:
    return f"ε = {format_number(epsilon)}" + ("" if delta == 0 else f" at δ = {format_number(delta, 3)}")


def _say_total(budget: Budget | None) -> str:
    if budget is None:
        return "."
    total = _say_price(float(budget.epsilon), float(budget.delta))
    return f", and counts against {total}, which was fixed in advance for all releases about the same units."


def _say_risk(facts: PublicationFacts) -> str:
    event = facts.event
    guess = None if event is None else event_success(event)
    if guess is None:
        return ""
    return (
        "By this release alone, someone who is 50:50 unsure whether a unit is in the table is right at most "
        f"{format_decimal(math.ceil(min(1.0, guess) * 1000 - 1e-9) / 10, 1)} times in 100."
    )


def _say_entries(facts: PublicationFacts) -> str:
    return ", ".join(f"entry {each.entry}" for each in facts.charges)


def _say_budget(fields: Mapping[str, str] | None) -> str:
    if fields is None:
        return "none"
    epsilon, delta = Fraction(fields["epsilon"]), Fraction(fields["delta"])
    return f"ε = {format_number(epsilon)}" + (f", δ = {format_number(delta)}" if delta else "")


def escape_markup(text: str) -> str:
    """Return a text in which no tag, link or picture is seen; `age < 65` stays as it is."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(")


def _cell(value: object) -> str:
    """Return a text that is one cell of a table in Markdown, whatever is in it."""
    escaped = str(value).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")
    return " ".join(escape_markup(escaped).split())
