"""The replay of programs that use mechanisms of diffprivlib or measurements of opendp.

Every call of a mechanism's `randomise`, and every call of a measurement, is written down on one table and
answered alike on the other. What was spent on a pair is the sum of the mechanisms' own prices for the
distances that their inputs really moved, as these libraries state them; their own proofs are not examined.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from sfumato.audit.claims import Claim, parse_claim
from sfumato.audit.replay import Diverged, Replayed
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sfumato.privacy.exact import Number

_CLOSE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """One use of a mechanism of another library: its name and parameters, its input, and its price."""

    name: str
    parameters: str
    value: Any
    price: Callable[[float], float] | None
    """Returns the ε of an input that moved by so much; None where the library states none."""
    sensitivity: float | None = None

    def moved(self, other: LibraryCall) -> float:
        """Return how far the input moved, in l1; infinite where it is no number."""
        try:
            return float(np.abs(np.asarray(self.value, float) - np.asarray(other.value, float)).sum())
        except (TypeError, ValueError):
            return 0.0 if self.value is other.value else np.inf


@dataclass(slots=True)
class LibraryRecord:
    """Calls and answers of one run; given another record, the same calls get the same answers."""

    again: LibraryRecord | None = None
    calls: list[LibraryCall] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    deep: bool = False

    def answer(self, call: LibraryCall, draw: Callable[[], Any]) -> Any:
        """Return a new answer, or the recorded one; a call within a call is part of it."""
        if self.deep:
            return draw()
        place = len(self.calls)
        self.calls.append(call)
        if self.again is None:
            self.deep = True
            try:
                self.answers.append(draw())
            finally:
                self.deep = False
            return self.answers[-1]
        earlier = self.again.calls[place] if place < len(self.again.calls) else None
        if earlier is None or (earlier.name, earlier.parameters) != (call.name, call.parameters):
            raise Diverged(place)
        return self.again.answers[place]


@contextmanager
def libraries_recorded(record: LibraryRecord) -> Iterator[None]:
    """Write down every call of the mechanisms of diffprivlib and opendp, where these are installed."""
    with ExitStack() as stack:
        for install in (_record_diffprivlib, _record_opendp):
            try:
                install(record, stack)
            except ImportError:
                continue
        yield


def _record_diffprivlib(record: LibraryRecord, stack: ExitStack) -> None:
    room = import_module("diffprivlib.mechanisms")
    for name in dir(room):
        kind = getattr(room, name)
        if isinstance(kind, type) and "randomise" in vars(kind):
            _replace(stack, kind, "randomise", _randomise(vars(kind)["randomise"], record))


def _replace(stack: ExitStack, kind: type, name: str, method: Callable[..., Any]) -> None:
    """Set a method until the stack is left."""
    stack.callback(setattr, kind, name, vars(kind)[name])
    setattr(kind, name, method)


def _randomise(inner: Callable[..., Any], record: LibraryRecord) -> Callable[..., Any]:
    def randomise(self: Any, value: Any) -> Any:
        epsilon, most = getattr(self, "epsilon", None), getattr(self, "sensitivity", None)
        price = None if epsilon is None or not most else lambda moved: float(epsilon) * moved / float(most)
        parameters = f"ε = {epsilon}, δ = {getattr(self, 'delta', 0)}, sensitivity = {most}"
        call = LibraryCall(type(self).__name__, parameters, value, price, most)
        return record.answer(call, lambda: inner(self, value))

    return randomise


def _record_opendp(record: LibraryRecord, stack: ExitStack) -> None:
    kind = import_module("opendp.mod").Measurement
    inner = kind.__call__

    def call_measurement(self: Any, value: Any) -> Any:
        call = LibraryCall(
            "Measurement", f"{self.input_metric}", value, lambda moved: float(_map(self, moved))
        )
        return record.answer(call, lambda: inner(self, value))

    _replace(stack, kind, "__call__", call_measurement)


def _map(measurement: Any, moved: float) -> Any:
    try:
        return measurement.map(moved)
    except Exception:
        return measurement.map(int(np.ceil(moved)))  # where distances are whole numbers


def replay_libraries(
    program: Callable[[Any], Any], pairs: Iterable[tuple[Any, Any]], *, claim: Number
) -> Replayed:
    """Run a program on pairs of neighbours and compare what mechanisms of diffprivlib and opendp were given.

    `claim` is a pure ε. Settings that these libraries choose by chance must be fixed by the program, such as
    where k-means begins; that a result differs is not looked at.
    """
    stated = parse_claim(claim, 0)
    calls, most = 0, 0.0
    for done, (one, other) in enumerate(pairs, start=1):
        first, again = LibraryRecord(), LibraryRecord()
        again.again = first
        _run(program, one, first)
        calls += len(first.calls)
        try:
            _run(program, other, again)
        except Diverged as left:
            finding = f"call {left.args[0] + 1} differs in mechanism or parameters"
            return Replayed(str(stated), finding, done, calls, most)
        found, spent = _judge(first.calls, again.calls, stated)
        most = max(most, spent)
        if found:
            return Replayed(str(stated), found, done, calls, most)
    if not calls:
        raise UsageError("SF-A105", "No mechanism was used, so there is nothing to audit.")
    return Replayed(str(stated), None, done, calls, most)


def _run(program: Callable[[Any], Any], table: Any, record: LibraryRecord) -> None:
    with libraries_recorded(record), catch_warnings():
        simplefilter("ignore")
        program(table)


def _judge(first: list[LibraryCall], second: list[LibraryCall], claim: Claim) -> tuple[str | None, float]:
    if len(first) != len(second):
        return f"{len(first)} calls on one table and {len(second)} on the other", 0.0
    spent = 0.0
    for place, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        moved = one.moved(other)
        if one.sensitivity is not None and moved > float(one.sensitivity) * _CLOSE:
            return (
                (
                    f"the input of call {place} moved by {format_number(moved)}, "
                    f"stated {format_number(one.sensitivity)}"
                ),
                0.0,
            )
        if moved and one.price is not None:
            spent += one.price(moved)
    allowed = float(claim.epsilon or 0)
    if spent > allowed * _CLOSE:
        return f"the inputs moved by what costs ε = {format_number(spent)} in all", spent / allowed
    return None, spent / allowed
