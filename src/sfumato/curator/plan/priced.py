"""What a charge is for: steps with one price, about the people of one table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sfumato.curator.catalog.catalog import split_snapshot_name
from sfumato.curator.plan.work import Work, bound_work
from sfumato.engines.program import CellSums, Counted
from sfumato.engines.rows import Scan, list_scans
from sfumato.engines.values import Every
from sfumato.privacy.account import NOTHING, Cost, price
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import Event, Sequential
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.spend import Spend
    from sfumato.engines.program import EngineProgram

NO_CHARGE = "nothing"
"""The price, in words, of an answer that follows from declarations."""


class Step(Protocol):
    """A program for the engine, its price, and the one function that adds noise to what it answers."""

    @property
    def program(self) -> EngineProgram[Any]: ...

    def event(self) -> Event: ...

    def release(self, exact: Any) -> object: ...


Taken = TypeVar("Taken", bound=Step, covariant=True)
Subject = TypeVar("Subject", covariant=True)


@dataclass(frozen=True)
class Plan(Generic[Taken, Subject]):
    """Steps that are charged together and then answered in order. Price and identity are computed once."""

    table: Table
    spend: Spend
    steps: tuple[Taken, ...]
    subject: Subject
    """What the answer is read with: the question itself, or what the integers in the answer stand for."""
    bias: tuple[Caveat, ...] = ()
    """What no interval for the noise covers, in words."""
    named: tuple[Any, ...] = ()
    """What is hashed before the steps, so that the same steps asked in another way are another request."""
    together: Event | None = None
    """What all steps cost, where they are not charged one after the other."""
    times: int = 1
    """How often the spend is charged."""
    reads: tuple[Table, ...] = ()
    """The tables that the steps read, where they are more than the table itself."""
    known_as: tuple[Any, ...] = ()
    """What is hashed in place of the steps, where a question is still recognised by what it was before."""

    def __post_init__(self) -> None:
        for step in self.steps:
            for each in getattr(step, "measured", ()):
                if each.counts_public_rows:
                    _require_public_count(self.table, step.program, each.of.term)

    @property
    def is_empty(self) -> bool:
        """Whether no row can be used by declaration, so that the answer is known and nothing is charged."""
        return not self.steps and self.together is None

    @cached_property
    def work(self) -> Work:
        """Upper bounds on what one unit can make an engine carry and compute, from public facts alone."""
        return bound_work((step.program for step in self.steps), (self.table, *self.reads))

    @cached_property
    def event(self) -> Event:
        """What one unit's presence can cost: every step, one after the other, unless said otherwise."""
        # Parts of a table are about different people, so their events do not simply add up.
        if self.together is not None:
            return self.together
        return Sequential(tuple(step.event() for step in self.steps))

    @cached_property
    def cost(self) -> Cost:
        """The integers that the ledger charges."""
        return price(self.event)

    @cached_property
    def request(self) -> str:
        """The identity of what is asked: programs and noise on one snapshot, whatever the names."""
        identified = self.known_as or self.steps
        return hashlib.sha256(canonical_json([*self.named, *identified]).encode()).hexdigest()

    @cached_property
    def identities(self) -> tuple[tuple[str, str], ...]:
        """Every table whose rows are read, with the identity of its snapshot."""
        names = {scan.snapshot for step in self.steps for scan in list_scans(step.program.rows)}
        return tuple(sorted(map(split_snapshot_name, names)))

    @property
    def charged(self) -> str:
        """What is charged, in words."""
        if self.cost == NOTHING:
            return NO_CHARGE
        return str(self.spend) if self.times == 1 else f"{self.spend}, {self.times} times"


def _require_public_count(table: Table, program: EngineProgram[Any], term: object) -> None:
    """Refuse to release an exact number that is not the declared number of all rows of the table."""
    public = table.neighbours is Neighbours.REPLACE_ONE and table.public_rows is not None
    everyone = isinstance(program, CellSums) and program.keys == () and program.where == Every()
    whole = isinstance(program.rows, Scan) and program.rows.snapshot == table.snapshot_name
    if not (public and everyone and whole and term == Counted()):
        raise AssertionError("only the public number of rows is released without noise")
