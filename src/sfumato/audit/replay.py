"""The grey-box audit: run a program twice with the same noisy answers and compare its mechanisms' inputs.

Given the answers so far, a private program must do the same on neighbouring tables: use the same mechanisms
with the same parameters, on inputs no further apart than was priced, and return the same result. So the
second run is given the answers of the first, and only differences that come from the rows remain. The idea is
that of Cebere and others, *Re:cord-play*, 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato import viz
from sfumato.audit.claims import Claim, is_within, parse_claim
from sfumato.audit.distance import input_distance, price_inputs, same_result
from sfumato.audit.outcomes import Raised, require_outputs
from sfumato.errors import SfumatoError, UsageError
from sfumato.errors.numbers import format_share
from sfumato.noise.audit_hook import MechanismCall, recording
from sfumato.privacy.events import Event, Sequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from fractions import Fraction

    from sfumato.privacy.exact import Number

Answer = TypeVar("Answer")
Table = TypeVar("Table")


class Diverged(BaseException):
    """The second run made another call than the first. Not an Exception, so that no program swallows it."""


@dataclass(slots=True)
class Recording:
    """Records every call of a run and its answer."""

    calls: list[MechanismCall] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def answer(self, call: MechanismCall, draw: Callable[[], Answer]) -> Answer:
        """Draw an answer and record it."""
        answer = draw()
        self.calls.append(call)
        self.answers.append(answer)
        return answer


@dataclass(slots=True)
class Playback:
    """Gives the recorded answers again, as long as the calls are the same."""

    recorded: Recording
    calls: list[MechanismCall] = field(default_factory=list)

    def answer(self, call: MechanismCall, draw: Callable[[], Answer]) -> Answer:
        """Return the recorded answer of this call, or raise Diverged."""
        place = len(self.calls)
        self.calls.append(call)
        if place >= len(self.recorded.calls) or not self._same_way(place):
            raise Diverged(place)
        answer: Answer = self.recorded.answers[place]
        return answer

    def _same_way(self, place: int) -> bool:
        began = [_began(calls, place) for calls in (self.calls, self.recorded.calls)]
        return began[0] == began[1] and _alike(self.calls[place], self.recorded.calls[place])


@dataclass(frozen=True, slots=True, repr=False)
class Replayed:
    """The outcome of a replay over pairs of neighbours."""

    claim: str
    finding: str | None
    """Description of the first violation, or None."""
    pairs: int
    calls: int
    reached: float
    """Largest share of its priced sensitivity that an input moved by."""

    @property
    def violates(self) -> bool:
        """True where a violation was found."""
        return self.finding is not None

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.finding:
            return f"violates: {self.finding}"
        reach = f"inputs moved by up to {format_share(self.reached, 0)} of their price"
        return f"no violation found in {self.pairs:,} pairs; {reach}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "claim": self.claim,
            "verdict": self.sentence,
            "violates": self.violates,
            "finding": self.finding,
            "pairs": self.pairs,
            "calls": self.calls,
            "reached": self.reached,
        }

    def __str__(self) -> str:
        return self.sentence

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table([("verdict", self.sentence), ("claim", self.claim)])


def replay(
    program: Callable[[Table], Any],
    pairs: Iterable[tuple[Table, Table]],
    *,
    claim: Event | Number,
    delta: Number = 0,
) -> Replayed:
    """Run a program on pairs of neighbouring tables and compare what its mechanisms were given.

    The program takes a table and returns plain values: numbers, texts, arrays, lists, dictionaries. All
    its randomness must come from sfumato's mechanisms, and all of it from the thread it is called in.
    """
    stated = parse_claim(claim, delta)
    done = calls = 0
    reached = 0.0
    failures: list[Raised | None] = []
    for one, other in pairs:
        finding, run, share, failed = _compare(program, one, other, stated)
        failures.append(failed)
        done, calls, reached = done + 1, calls + len(run.calls), max(reached, share)
        if finding:
            return Replayed(str(stated), finding, done, calls, reached)
    if not calls:
        raise UsageError("SF-A105", "No mechanism was used, so there is nothing to audit.", pairs=str(done))
    require_outputs(failures)
    return Replayed(str(stated), None, done, calls, reached)


def _compare(
    program: Callable[[Table], Any], one: Table, other: Table, claim: Claim
) -> tuple[str | None, Recording, float, Raised | None]:
    """Return what was found, the first run, how far inputs moved, and the exception that ended both."""
    record = Recording()
    with recording(record):
        result = _result(program, one)
    again = Playback(record)
    try:
        with recording(again):
            repeated = _result(program, other)
    except Diverged as left:
        return f"call {left.args[0] + 1} differs in mechanism, parameters or size", record, 0.0, None
    if len(again.calls) < len(record.calls):
        counts = f"{len(record.calls)} calls on one table and {len(again.calls)} on the other"
        return counts, record, 0.0, None
    uses = _uses(record.calls, again.calls)
    same = result == repeated if isinstance(result, Raised) else same_result(result, repeated)
    failed = result if isinstance(result, Raised) and same else None
    return _finding(uses, claim, same), record, _reach(uses), failed


@dataclass(frozen=True, slots=True)
class MechanismUse:
    """One use of a mechanism in both runs, and how far its input moved between them."""

    place: int
    call: MechanismCall
    inputs: tuple[Any, Any]
    moved: Fraction | int

    def event(self) -> Event:
        """Return what this use costs, if its inputs are those of neighbours."""
        return price_inputs(self.call.mechanism, *self.inputs)


def _uses(calls: list[MechanismCall], again: list[MechanismCall]) -> list[MechanismUse]:
    """Return the uses of mechanisms; all calls within one longer use are one."""
    together: dict[int, list[int]] = {}
    for place in range(len(calls)):
        together.setdefault(_began(calls, place), []).append(place)
    uses = []
    for first, places in together.items():
        inputs = _input(calls, places), _input(again, places)
        moved = input_distance(calls[first].mechanism, *inputs)
        uses.append(MechanismUse(first, calls[first], inputs, moved))
    return uses


def _input(calls: list[MechanismCall], places: list[int]) -> Any:
    """Return the input of a use: the inputs of all its calls, if it has several."""
    if calls[places[0]].within is None:
        return calls[places[0]].exact
    return [calls[place].exact for place in places]


def _began(calls: list[MechanismCall], place: int) -> int:
    """Return the index of the first call of the same use."""
    began_in = calls[place].within
    if began_in is None:
        return place
    return next(i for i, call in enumerate(calls) if call.within is began_in)


def _finding(uses: list[MechanismUse], claim: Claim, same_result: bool) -> str | None:
    for use in uses:
        if use.call.sensitivity is not None and use.moved > use.call.sensitivity:
            return (
                f"the input of call {use.place + 1} moved by {use.moved}, priced for {use.call.sensitivity}"
            )
    spent = Sequential(use.event() for use in uses if use.moved)
    if not is_within(spent, claim):
        return f"the inputs moved by more than {claim} pays for"
    return None if same_result else "the result differs although every noisy answer was the same"


def _reach(uses: list[MechanismUse]) -> float:
    shares = [float(use.moved / use.call.sensitivity) for use in uses if use.call.sensitivity is not None]
    return max(shares, default=0.0)


def _result(program: Callable[[Table], Any], table: Table) -> Any:
    """Return the result of the program; an exception is a result too, by its type and text."""
    try:
        return program(table)
    except SfumatoError as error:
        return Raised(error.code)
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}")


def _alike(call: MechanismCall, recorded: MechanismCall) -> bool:
    return bool(
        call.mechanism == recorded.mechanism
        and np.shape(call.exact) == np.shape(recorded.exact)
        and call.sensitivity == recorded.sensitivity
    )
