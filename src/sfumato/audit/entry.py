"""The one entry point of the auditor: a claim against two samplers, any program, or a run with canaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sfumato.audit.blackbox import ALPHA, compare_samplers, parse_samples, require_rare
from sfumato.audit.claims import parse_claim
from sfumato.audit.neighbours import number_tables
from sfumato.audit.one_run import CanaryVerdict, draw_inclusion, one_run
from sfumato.audit.programs import Observer, audit_program
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.audit.verdict import Verdict
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

    Sampler = Callable[[int], Any]

_SAMPLES = 200_000
_PROGRAM_SAMPLES = 20_000


@overload
def run(
    target: tuple[Sampler, Sampler] | Callable[[Any], Any],
    claim: Event | Number,
    *,
    delta: Number = 0,
    neighbours: Iterable[tuple[Any, Any]] | None = None,
    samples: int | None = None,
    alpha: float = ALPHA,
    time: bool = False,
    last_bits: bool = True,
) -> Verdict: ...
@overload
def run(
    target: Callable[[Any], Any],
    claim: Event | Number,
    *,
    delta: Number = 0,
    alpha: float = ALPHA,
    canaries: int,
    independent: bool = False,
) -> CanaryVerdict: ...


def run(
    target: Any,
    claim: Any,
    *,
    delta: Any = 0,
    neighbours: Any = None,
    samples: int | None = None,
    alpha: float = ALPHA,
    time: bool = False,
    last_bits: bool = True,
    canaries: int | None = None,
    independent: bool = False,
) -> Verdict | CanaryVerdict:
    """Try to break a privacy claim, and return the verdict. `claim` is an event or an ε, with `delta`.

    `target` is one of three:

    - a function of a table: `neighbours` are pairs of tables that differ by one unit, or left out for
      functions of an array of numbers in [0, 1] (see `number_tables`). Noise of sfumato and NumPy is
      recorded and replayed; then the pair that tells most is searched and the outputs on it compared. With
      `time`, how long a call takes is an output too; without `last_bits`, floating-point noise is taken for
      the real numbers that it stands for;
    - two functions of a number n that return n independent outputs each, on one table and on a neighbour;
    - with `canaries`, a function that takes so many fair coins, runs once with the canaries whose coin shows
      True, and returns a score for each canary, high where it looks as if it had been in.
    """
    stated = parse_claim(claim, delta if canaries is None else 0)
    require_rare(alpha)
    if canaries is not None:
        included = draw_inclusion(canaries)
        scores = np.asarray(target(included.copy()))
        return one_run(scores, included, claim, delta=delta, alpha=alpha, independent=independent)
    if isinstance(target, tuple):
        return compare_samplers(target, stated, samples=parse_samples(samples or _SAMPLES), alpha=alpha)
    if not callable(target):
        raise UsageError(
            "SF-A101",
            "The target must be a function of a table, or two samplers on neighbouring tables.",
            got=type(target).__name__,
            try_="run(program, claim=1.0, neighbours=[(table, table_with_one_more)])",
        )
    pairs = number_tables() if neighbours is None else neighbours
    count = parse_samples(samples or _PROGRAM_SAMPLES)
    return audit_program(target, stated, pairs, Observer(time, last_bits), samples=count, alpha=alpha)
