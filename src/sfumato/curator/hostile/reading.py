"""Reading for someone hostile: in a worker process, and with a reply that leaves at the end of its slot.

Because : docs/proofs/slots.md
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.curator.hostile.apart import WorkerError
from sfumato.curator.hostile.slots import SlotClock, choose_slot, find_end, reading_time
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sfumato.curator.gate import Read
    from sfumato.curator.plan.priced import Plan, Step
    from sfumato.engines.router import EngineRouter

    Ask = Callable[[Sequence[Step], float], str]
    """Reads steps within so many seconds and returns the text to keep, or raises."""


class Workers(Protocol):
    """Starts worker processes."""

    def take_place(self) -> AbstractContextManager[object]:
        """Wait for a free place, and keep it until the block ends."""

    def start_worker(self, *, learns: bool = False) -> AbstractContextManager[Ask]:
        """Yield what asks a new worker; `learns` if it needs learners."""

    def close(self) -> None:
        """End all workers."""


@dataclass(frozen=True, slots=True)
class SlotReader:
    """Reads in a process of its own for each question, and gives or fails at the end of the slot.

    Privacy
    -------
    Protects : whoever the question's price protects.
    Costs    : nothing beside the price.
    Because  : docs/proofs/slots.md
    Assumes  : the system wakes a sleeping process at a time that does not depend on rows.
    """

    workers: Workers
    engine: EngineRouter
    clock: SlotClock = field(default_factory=SlotClock)

    def slot(self, plan: Plan[Any, Any]) -> float:
        """Return how many seconds after it was begun a plan is replied to. Refuses what no worker reads."""
        if not all(self.engine.runs_apart(step.program) for step in plan.steps):
            raise PolicyError(
                "SF-Q191",
                "A table in Spark cannot be asked about in a hostile session; nothing was charged.",
                why="Spark's driver is in the steward's process, so no worker of fixed memory can read",
                try_="the steward registers the table from Parquet or PostgreSQL",
            )
        return choose_slot(plan)

    @contextmanager
    def begin(self, plan: Plan[Any, Any], done: Callable[[], object]) -> Iterator[Read]:
        """Yield what reads for a plan, and calls `done` when it has no more need of the rows.

        The worker is started before the charge, and ended with the block.
        Its place is free after the slot and not when it has answered: else the next question's wait would
        tell how long this one took.
        """
        slot = self.slot(plan)
        with self.workers.take_place():
            # Before the fork: how long that takes depends on what else the machine does, such as ending
            # another question's worker, and must be within the slot.
            begun = self.clock.now()
            with self.workers.start_worker(learns=any(map(_learns, plan.steps))) as ask:
                yield partial(self._read, partial(_ask, ask, done), slot, begun)

    def _read(self, ask: Ask, slot: float, begun: float, steps: Sequence[Step]) -> str:
        asked = self.clock.now()
        end = find_end(slot, begun, asked)
        try:
            text = ask(steps, reading_time(slot))
            # Where the machine was too busy to stop the worker in time, the answer is late all the same.
            if self.clock.now() > asked + reading_time(slot):
                raise WorkerError("the answer came after its time")
        except Exception:
            self.clock.wait_until(end)
            raise
        self.clock.wait_until(end)
        return text


@dataclass(frozen=True, slots=True)
class WatchedReader:
    """Reads as another reader does, and reports each round once its reply has left.

    What is reported is the slot, which is public, at a time that everyone who asked knows: the end of it.
    """

    inner: SlotReader
    report: Callable[[float], None]

    def slot(self, plan: Plan[Any, Any]) -> float:
        """Return how many seconds after it was begun a plan is replied to."""
        return self.inner.slot(plan)

    @contextmanager
    def begin(self, plan: Plan[Any, Any], done: Callable[[], object]) -> Iterator[Read]:
        """Yield what reads for a plan; report its slot when the block has ended well."""
        with self.inner.begin(plan, done) as read:
            yield read
        self.report(self.inner.slot(plan))


def _ask(ask: Ask, done: Callable[[], object], steps: Sequence[Step], seconds: float) -> str:
    # A steward who drops the table must not wait for the slot's end.
    try:
        return ask(steps, seconds)
    finally:
        done()


def _learns(step: Step) -> bool:
    """Return whether a step is made of what only `learn` knows."""
    return type(getattr(step, "kernel", step)).__module__.startswith("sfumato.learn")
