"""The audit of any program that takes a table: a search over neighbours, then the worst pair sampled.

A few outputs on every pair choose the pair; fresh outputs on that pair choose an output set; others measure
it. Since each choice is made before the outputs that are measured are drawn, searching does not bias the
verdict (docs/proofs/audit.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from sfumato.audit.blackbox import choose_set, choosing_part, judge_columns
from sfumato.audit.features import program_columns
from sfumato.audit.foreign import replay_numpy
from sfumato.audit.neighbours import describe_pair
from sfumato.audit.outcomes import Raised, require_outputs
from sfumato.audit.replay import replay
from sfumato.audit.search import Goal
from sfumato.errors import SfumatoError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.audit.claims import Claim
    from sfumato.audit.outcomes import Columns
    from sfumato.audit.replay import Replayed
    from sfumato.audit.verdict import Verdict

    Program = Callable[[Any], Any]
    Pair = tuple[Any, Any]
    Drawn = tuple[list[tuple[Any, int]], list[tuple[Any, int]]]

_SEARCHED = 50
"""One in so many of the samples is drawn on each pair to choose the worst one."""
_FEWEST_SEARCHED = 200
_ROUGH = 0.05  # confidence of the search, which only ranks pairs


@dataclass(frozen=True, slots=True)
class Observer:
    """What is looked at besides the values: how long a call takes, and the last bits of doubles."""

    time: bool = False
    last_bits: bool = True

    def draw(self, program: Program, pair: Pair, count: int) -> Drawn:
        """Return outputs on both tables with the time of each, drawn in turns so that neither comes later."""
        samples: Drawn = ([], [])
        turns = np.random.default_rng().random(count) < 0.5
        with catch_warnings():
            simplefilter("ignore")
            for swapped in turns.tolist():
                for which in (1, 0) if swapped else (0, 1):
                    begun = perf_counter_ns()
                    output = _run(program, pair[which])
                    samples[which].append((output, perf_counter_ns() - begun))
        return samples

    def columns(self, drawn: Drawn, chosen: int) -> tuple[Columns, Columns]:
        """Return comparable columns; only outputs before `chosen` choose what is looked at."""
        outputs = [[each for each, _ in sample] for sample in drawn]
        columns = program_columns(outputs[0], outputs[1], chosen)
        for column, sample in zip(columns, drawn, strict=True):
            if self.time:
                column["nanoseconds"] = np.array([spent for _, spent in sample])
            for name in [] if self.last_bits else [each for each in column if each.startswith("last bit")]:
                del column[name]
        return columns


def audit_program(
    program: Program, claim: Claim, pairs: Iterable[Pair], observer: Observer, *, samples: int, alpha: float
) -> Verdict:
    """Return the verdict on a program, from a replay where its noise can be recorded and from its outputs."""
    tables = list(pairs)
    if not tables:
        raise UsageError("SF-A101", "There are no neighbouring tables.", try_="neighbours=[([], [1.0])]")
    replayed = replay_program(program, claim, tables)
    probed = max(samples // _SEARCHED, _FEWEST_SEARCHED)
    worst, seen = 0, -1.0
    outcomes: list[Any] = []
    for place, pair in enumerate(tables):
        drawn = observer.draw(program, pair, probed)
        outcomes += [each for sample in drawn for each, _ in sample]
        score = choose_set(observer.columns(drawn, probed), Goal(claim, _ROUGH))[0]
        worst, seen = (place, score) if score > seen else (worst, seen)
    require_outputs(outcomes)
    columns = observer.columns(observer.draw(program, tables[worst], samples), choosing_part(samples))
    found = judge_columns(columns, claim, samples, alpha)
    return replace(found, neighbours=describe_pair(*tables[worst]), tables=len(tables), replayed=replayed)


def _run(program: Program, table: Any) -> Any:
    try:
        return program(table.copy() if isinstance(table, np.ndarray) else table)
    except SfumatoError as error:
        return Raised(error.code)
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}")


def replay_program(program: Program, claim: Claim, tables: list[Pair]) -> Replayed | None:
    """Return the outcome of a replay, or None where the program's noise cannot be recorded."""
    try:
        # The same table twice: where the results differ, there is randomness that no recorder sees.
        same = replay(program, [(tables[-1][0], tables[-1][0])], claim=claim.event)
        if same.calls:
            return None if same.violates else replay(program, tables, claim=claim.event)
    except UsageError as refused:
        if refused.code != "SF-A105":
            raise
    return replay_numpy(program, claim, tables)
