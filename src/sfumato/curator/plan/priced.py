"""What a charge is for: steps with a price, about one table's people."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.privacy.account import Cost, price
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import Event, Parallel, Repeated, Sequential

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.domains import Domain
    from sfumato.curator.plan.plan import Plan
    from sfumato.curator.plan.spend import Spend
    from sfumato.engines.program import EngineProgram


class Step(Protocol):
    """A program for the engine, its price, and the one function that adds noise to what it answers."""

    @property
    def program(self) -> EngineProgram: ...

    def event(self) -> Event: ...

    def release(self, exact: Any) -> Any: ...


class Payable(Protocol):
    """Whatever is charged at once and answered in steps."""

    @property
    def table(self) -> Table: ...

    @property
    def spend(self) -> Spend: ...

    @property
    def steps(self) -> tuple[Step, ...]: ...

    @property
    def bias(self) -> tuple[str, ...]: ...

    @property
    def event(self) -> Event: ...

    @property
    def cost(self) -> Cost: ...

    @property
    def request(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Priced:
    """Steps that are paid for together, one after the other."""

    table: Table
    spend: Spend
    steps: tuple[Step, ...]
    bias: tuple[str, ...] = ()
    domain: Domain | None = None
    """What the places in the answer stand for, where it has any."""

    @property
    def event(self) -> Event:
        return Sequential(tuple(step.event() for step in self.steps))

    @property
    def cost(self) -> Cost:
        return price(self.event)

    @property
    def request(self) -> str:
        """The identity of what is asked: programs and noise on one snapshot, whatever the names."""
        return request(*self.steps)


def request(*parts: Any) -> str:
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def charged(plan: Payable) -> str:
    """What is charged, in words."""
    copies = plan.copies if isinstance(plan, Together) else 1
    return str(plan.spend) if copies == 1 else f"{plan.spend}, {copies} times"


def truncation(table: Table) -> tuple[str, ...]:
    """What bounding a unit's rows leaves out, in words."""
    unit = table.unit
    if unit.column is None:
        return ()
    if unit.max_rows == 1:
        return (f"only one row of each {unit.column} counts",)
    return (f"a {unit.column} with more than {unit.max_rows} rows counts with {unit.max_rows} of them",)


@dataclass(frozen=True, slots=True)
class Together:
    """Plans about parts of a table. One unit can be in `copies` of them, so the dearest counts that often."""

    plans: tuple[Plan, ...]
    copies: int

    @property
    def table(self) -> Table:
        return self.plans[0].table

    @property
    def spend(self) -> Spend:
        return self.plans[0].spend

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for plan in self.plans for step in plan.steps)

    @property
    def bias(self) -> tuple[str, ...]:
        return self.plans[0].bias

    @property
    def event(self) -> Event:
        dearest = Parallel(plan.event for plan in self.plans)
        return dearest if self.copies == 1 else Repeated(dearest, self.copies)

    @property
    def cost(self) -> Cost:
        return price(self.event)

    @property
    def request(self) -> str:
        return request("parts", self.copies, *self.steps)
