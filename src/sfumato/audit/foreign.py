"""The replay of programs that draw their noise from NumPy: the same random numbers on neighbouring tables.

While a program runs, `numpy.random.default_rng` returns a generator that writes down every call, and the
functions of `numpy.random` do so too. A generator that was made before, or imported by its own name, is not
seen. A second run gets the random numbers of the first. Only what is certain is a finding: that a generator
was given a seed short enough to be searched, and, where every number of the result is an exact value plus
Laplace noise of its own, how far these values moved against the scales of the noise.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from sfumato.audit.features import flatten_output
from sfumato.audit.replay import Replayed
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.audit.claims import Claim

_LAWS = (
    *("laplace", "normal", "standard_normal", "exponential", "standard_exponential", "gumbel", "geometric"),
    *("uniform", "random", "choice", "binomial", "poisson", "logistic", "standard_t", "gamma", "integers"),
    *("randint", "rand", "randn", "random_sample", "shuffle", "permutation"),
)
_SHORTEST_SEED = 2**64
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class NumpyCall:
    """One call for random numbers, what it was given and what it returned."""

    law: str
    given: tuple[Any, ...]
    named: dict[str, Any]
    drawn: Any

    @property
    def scale(self) -> float | None:
        """Scale of Laplace noise around 0, or None for anything else."""
        loc = self.named.get("loc", self.given[0] if self.given else 0.0)
        scale = self.named.get("scale", self.given[1] if len(self.given) > 1 else 1.0)
        centred = self.law == "laplace" and np.ndim(scale) == 0 and not np.any(np.asarray(loc))
        return float(scale) if centred else None


@dataclass(slots=True)
class NumpyRecord:
    """Calls of one run; given another record, its numbers are drawn again, each shifted if so asked."""

    again: NumpyRecord | None = None
    shift: float = 0.0
    calls: list[NumpyCall] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def draw(self, law: str, inner: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return new random numbers, or those that the same call of the earlier run returned."""
        place = len(self.calls)
        drawn = inner(*given, **named)
        if self.again is not None and place < len(self.again.calls):
            earlier = self.again.calls[place]
            if earlier.law == law and np.shape(earlier.drawn) == np.shape(drawn):
                drawn = earlier.drawn + self.shift if self.shift else earlier.drawn
        self.calls.append(NumpyCall(law, given, named, drawn))
        return drawn


class RecordedGenerator:
    """A generator of NumPy whose calls are written down."""

    def __init__(self, inner: Any, record: NumpyRecord) -> None:
        self._inner = inner
        self._record = record

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._inner, name)
        if name not in _LAWS:
            return part
        return lambda *given, **named: self._record.draw(name, part, given, named)


@contextmanager
def numpy_recorded(record: NumpyRecord) -> Iterator[None]:
    """Write down calls of `numpy.random` until the block ends; not for programs in several threads."""
    room = np.random
    kept = {name: getattr(room, name) for name in [*_LAWS, "default_rng", "seed"] if hasattr(room, name)}

    def make(seed: Any = None, *more: Any) -> Any:
        _note_seed(seed)
        return RecordedGenerator(kept["default_rng"](seed, *more), record)

    def set_seed(seed: Any = None) -> None:
        _note_seed(seed)
        kept["seed"](seed)

    def _note_seed(seed: Any) -> None:
        if isinstance(seed, int | np.integer) and int(seed) < _SHORTEST_SEED:
            record.seeds.append(int(seed))

    def recorded(law: str, inner: Any) -> Any:
        return lambda *given, **named: record.draw(law, inner, given, named)

    try:
        for law in _LAWS:
            if law in kept:
                setattr(room, law, recorded(law, kept[law]))
        room.default_rng = make
        room.seed = set_seed
        yield
    finally:
        for name, part in kept.items():
            setattr(room, name, part)


def replay_numpy(
    program: Callable[[Any], Any], claim: Claim, tables: list[tuple[Any, Any]]
) -> Replayed | None:
    """Return the outcome of a replay with NumPy's random numbers, or None where it would show nothing."""
    calls, most = 0, 0.0
    for done, (one, other) in enumerate(tables, start=1):
        first, result = _run(program, one, NumpyRecord())
        calls += len(first.calls)
        if first.seeds:
            return Replayed(str(claim), "a generator got a seed that can be searched", done, calls, most)
        second, repeated = _run(program, other, NumpyRecord(first))
        scales = _scales(program, one, first, result), _scales(program, other, second, repeated)
        if scales[0] is None or scales[1] is None or len(scales[0]) != len(scales[1]):
            continue
        finding, spent = _judge(scales[0], scales[1], result, repeated, claim)
        most = max(most, spent)
        if finding:
            return Replayed(str(claim), finding, done, calls, most)
    return Replayed(str(claim), None, len(tables), calls, most) if most else None


def _run(program: Callable[[Any], Any], table: Any, record: NumpyRecord) -> tuple[NumpyRecord, Any]:
    with numpy_recorded(record), catch_warnings():
        simplefilter("ignore")
        try:
            result = np.array(list(flatten_output(program(table))))
        except Exception:
            result = np.array([])
    return record, result


def _scales(program: Any, table: Any, record: NumpyRecord, result: Any) -> Any:
    """Return the scale of each result's own Laplace noise; None where results are not such sums."""
    if not record.calls or any(call.scale is None for call in record.calls) or not np.isfinite(result).all():
        return None
    scales = np.concatenate([np.full(np.size(call.drawn), call.scale) for call in record.calls])
    if len(scales) != len(result):
        return None
    # Noise that is greater or smaller by so much moves every result by as much, if it is added and no more.
    far = 1000 * (1 + float(np.abs(result).max(initial=0.0)))
    for shift in (far, -far):
        _, moved = _run(program, table, NumpyRecord(record, shift=shift))
        if moved.shape != result.shape or np.any(np.abs(moved - result - shift) > _CLOSE * far):
            return None
    return scales


def _judge(scales: Any, others: Any, result: Any, repeated: Any, claim: Claim) -> tuple[str | None, float]:
    if claim.epsilon is None or claim.delta:
        return None, 0.0
    allowed = float(claim.epsilon)
    if np.any(np.abs(scales - others) > _CLOSE * np.abs(scales)):
        # Far out, where the narrower noise hardly reaches, the ratio of densities has no bound.
        return "the scale of Laplace noise depends on the rows", np.inf
    spent = float((np.abs(result - repeated) / np.maximum(scales, 1e-300)).sum())
    if spent > allowed * (1 + _CLOSE):
        return f"exact values moved by {format_number(spent)} scales of their Laplace noise", spent / allowed
    return None, spent / allowed
