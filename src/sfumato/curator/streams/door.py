"""The door of streams: charge once for all ticks, then read, add noise, keep and release, tick by tick.

The order is that of curator/gate.py. The charge is durable before anything is read. A tick's value and the
noise that later ticks go on from are durable, in one transaction, before the ledger hears of the value. Each
tick has one charge of nothing, under a key of its own, and so at most one release in the chain.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.payer import population_account
from sfumato.curator.streams.participants import TickTotals, sum_rows, sum_units
from sfumato.curator.streams.state import KeptStream, StreamState
from sfumato.engines.rows import list_scans
from sfumato.errors import EngineError, PolicyError, SealedError
from sfumato.errors.interrupts import find_interrupt
from sfumato.ledger import Charge, Charged, failpoints
from sfumato.noise.continual.stored import (
    read_checkpoint,
    read_mechanism,
    write_checkpoint,
    write_mechanism,
)
from sfumato.privacy.account import NOTHING
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from sfumato.curator.payer import LabAccess, Payer
    from sfumato.curator.streams.plan import StreamPlan
    from sfumato.engines.program import EngineProgram
    from sfumato.ledger import Ledger
    from sfumato.noise import RunningSums
    from sfumato.noise.continual.running_sums import RunningNoise


@dataclass(frozen=True, slots=True)
class ReleasedTick:
    """What the ledger keeps of one tick: its running sums with noise, and the mark of the state after it."""

    sums: tuple[int, ...]
    mark: str

    @classmethod
    def read(cls, text: str) -> ReleasedTick:
        """Return the tick that the ledger keeps as this text."""
        sums, mark = json.loads(text)
        return cls(tuple(sums), mark)

    def write(self) -> str:
        """Return the text that the ledger keeps."""
        return json.dumps([list(self.sums), self.mark], separators=(",", ":"))


class StreamDoor:
    """Releases the ticks of one stream for one payer."""

    def __init__(self, payer: Payer, plan: StreamPlan, text: str, earlier: StreamDoor | None = None) -> None:
        """Make the door of a stream; `earlier` is that of the block before, if it has blocks."""
        self._payer, self._plan, self._text, self._earlier = payer, plan, text, earlier
        self._state = StreamState(payer.lab.streams_folder, plan.request)
        self._noise: RunningNoise | None = None

    # ---- what was released ----

    def find_mechanism(self) -> RunningSums | None:
        """Return the mechanism of the stream if it was charged and begun, and None before."""
        if not self._payer.was_answered(self._plan):
            return None
        opened = self._ledger.find_release(self._plan.request)
        if opened is None:
            raise AssertionError(self._plan.request)
        return read_mechanism(json.loads(opened.answer)[0])

    def find_tick(self, tick: int) -> ReleasedTick | None:
        """Return a tick that was released, which costs nothing."""
        kept = self._ledger.find_release(self._tick_request(tick))
        return None if kept is None else ReleasedTick.read(kept.answer)

    # ---- releasing ----

    def release_ticks(self, most: int | None = None) -> int:
        """Charge for the stream if nobody has, and release complete ticks in order. Return how many.

        Everything is decided by public facts: the catalog says which ticks are complete.
        """
        self._payer.require_admissible(self._plan)
        # Nothing is charged before there is something to release.
        if not self._plan.resolved.count_complete() and not self._payer.was_answered(self._plan):
            return 0
        with self._state.hold():
            kept = self._begin()
            self._finish(kept)
            complete = self._plan.resolved.count_complete()
            ready = max(0, complete - kept.ticks)
            wanted = ready if most is None else min(most, ready)
            for _ in range(wanted):
                kept = self._make_tick(kept)
                # Two copies of a folder may run at once: whoever comes second had noise of its own.
                if self._publish(kept.ticks - 1).mark != kept.mark:
                    raise _elsewhere_error()
            return wanted

    def _begin(self) -> KeptStream:
        """Return where the stream stands; one that nobody has begun is charged first, durably."""
        plan, ledger = self._plan, self._ledger
        if self._payer.was_answered(plan):
            kept = self._state.read()
            if kept is None:
                raise _elsewhere_error()
            return kept
        if self._earlier is not None:
            self._earlier._require_whole()
        charge = self._payer.make_charge(plan, self._text, f"stream {plan.request}")
        if plan.resolved.question.series is not None:
            charge = replace(charge, about={**charge.about, "series": plan.resolved.question.series})
        charged = ledger.charge(charge, take_over=True)
        if isinstance(charged, Charged):
            mechanism = write_mechanism(plan.mechanism)
            before = None if self._earlier is None else self._earlier._state
            kept = self._state.begin(mechanism, secrets.token_hex(16), before)
            failpoints.reach("stream:begun")
            ledger.release(charged, json.dumps([kept.mechanism, kept.mark]))
        return self._begin()

    def _finish(self, kept: KeptStream) -> None:
        """Release ticks that have a value and are not in the ledger; refuse a state that is not the newest.

        After a crash that is the last one; in a ledger that was restored from a copy there may be more.
        """
        known = kept.ticks
        while known and self.find_tick(known - 1) is None:
            known -= 1
        for tick in range(known, kept.ticks):
            self._publish(tick)
        # Another copy of the lab's folder may have gone on, with noise of its own.
        last = self.find_tick(kept.ticks - 1) if kept.ticks else None
        if self.find_tick(kept.ticks) is not None or (last is not None and last.mark != kept.mark):
            raise _elsewhere_error()

    def _require_whole(self) -> None:
        """Refuse to begin the next block before this one is whole: its units would be counted in both."""
        kept, horizon = self._state.read(), self._plan.resolved.question.horizon
        last = self.find_tick(horizon - 1)
        if last is None:
            raise PolicyError(
                "SF-S104",
                "The block before has ticks that were not released yet.",
                why="who was counted in it is not counted again",
                try_="stream.run(), which releases the ticks of all blocks in order",
            )
        if kept is None or kept.mark != last.mark:
            raise _elsewhere_error()

    def _make_tick(self, kept: KeptStream) -> KeptStream:
        """Read the next tick and keep its value with noise. No error leaves here but constant ones."""
        outcome = self._attempt(kept)
        if isinstance(outcome, KeptStream):
            return outcome
        self._noise = None
        if isinstance(outcome, BaseException):
            raise outcome
        # Raised outside of the attempt: no traceback may hold a frame with exact numbers.
        raise SealedError(
            "SF-S111",
            "The next tick could not be read. It is charged already and can be tried again.",
            incident=outcome,
            try_="tell the steward the incident number",
        )

    def _attempt(self, kept: KeptStream) -> KeptStream | str | BaseException:
        """Return the tick as it was kept, the number of an incident, or what may be raised."""
        try:
            done = self._read_tick(kept.ticks)
            failpoints.reach("tick:read")
            noise = self._resume(kept)
            sums = noise.extend([done.totals])[0]
            failpoints.reach("tick:drawn")
            mark = secrets.token_hex(16)
            answer = ReleasedTick(tuple(map(int, sums)), mark).write()
            memory = write_checkpoint(noise.checkpoint())
            after = KeptStream(kept.mechanism, mark, kept.ticks + 1, memory)
            self._state.keep_tick(after, answer, done.units)
        except (EngineError, PolicyError) as refusal:
            # Both follow from public facts: an engine that is down, a snapshot that was replaced.
            return refusal.with_traceback(None)
        except BaseException as error:
            incident = self._payer.lab.incidents.record()
            return find_interrupt(error) or incident
        return after

    def _resume(self, kept: KeptStream) -> RunningNoise:
        """Return the noise that goes on from the state; within one call it is one object."""
        if self._noise is None:
            mechanism = read_mechanism(kept.mechanism)
            begun = kept.noise is None
            self._noise = mechanism.begin() if begun else mechanism.resume(read_checkpoint(kept.noise or ""))
        return self._noise

    def _read_tick(self, tick: int) -> TickTotals:
        stream, lab = self._plan.resolved, self._payer.lab
        program: EngineProgram[Any] = stream.program(tick)
        snapshots = {scan.snapshot for scan in list_scans(program.rows)}
        _require_current(lab, snapshots)
        with lab.reading(snapshots):
            _require_current(lab, snapshots)
            lab.engine.check(program)
            found = lab.engine.run(program)
        return sum_units(stream, self._state, tick, found) if stream.by_unit else sum_rows(stream, found)

    def _publish(self, tick: int) -> ReleasedTick:
        """Have the ledger keep the value of a tick. It is charged nothing, and released once."""
        about = {"question": self._text, "stream": self._plan.request, "tick": tick}
        charge = Charge(
            accounts=(population_account(self._plan.table.population),),
            cost=NOTHING,
            request=self._tick_request(tick),
            about={**about, "table": self._plan.table.name},
            key=f"tick {tick} of {self._plan.request}",
            neighbours=self._plan.table.relation,
        )
        charged = self._ledger.charge(charge, take_over=True)
        if isinstance(charged, Charged):
            charged = self._ledger.release(charged, self._state.read_answer(tick))
        return ReleasedTick.read(charged.answer)

    @property
    def _ledger(self) -> Ledger:
        return self._payer.lab.ledger

    def _tick_request(self, tick: int) -> str:
        named = canonical_json(["tick", self._plan.request, tick])
        return hashlib.sha256(named.encode()).hexdigest()


def _require_current(lab: LabAccess, snapshots: set[str]) -> None:
    if not snapshots <= {table.snapshot_name for table in lab.tables()}:
        raise PolicyError(
            "SF-C135",
            "The table got a new snapshot while this was being asked; nothing was charged.",
            try_="ask again",
        )


def _elsewhere_error() -> PolicyError:
    return PolicyError(
        "SF-S105",
        "This copy of the lab does not have the stream's newest state, so no tick can be added here.",
        why="the noise of later ticks depends on that of earlier ones, which is kept where they were made",
        try_="release ticks where the last one was released; what was released can be read here",
    )
