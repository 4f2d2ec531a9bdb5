"""Which units count in a tick, and what they add: decided by each unit's own rows and own past alone.

Because : docs/proofs/streams.md
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.streams.state import UnitTicks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.streams.plan import ResolvedStream
    from sfumato.curator.streams.state import StreamState
    from sfumato.engines.program import Integers, SumsByKey


@dataclass(slots=True)
class TickTotals:
    """The exact vector of a tick, cells of one sum after those of another, and what to remember of units."""

    totals: list[int]
    units: dict[str, UnitTicks] = field(default_factory=dict)


def sum_rows(stream: ResolvedStream, found: Integers) -> TickTotals:
    """Return the totals of a tick where every row is a unit of its own."""
    pairs = zip(stream.weights, found, strict=True)
    return TickTotals([int(each) * weight for weight, sums in pairs for each in sums.tolist()])


def sum_units(stream: ResolvedStream, state: StreamState, tick: int, found: SumsByKey) -> TickTotals:
    """Return the totals of the units that may still count in this tick."""
    vectors = _collect_vectors(stream, found)
    known = state.find_units(vectors)
    if stream.question.window is None:
        return _sum_first_ticks(stream, tick, vectors, known)
    leaving = state.find_leaving(tick - stream.question.window)
    return _sum_arrivals(stream, tick, vectors, {**leaving, **known})


def _collect_vectors(stream: ResolvedStream, found: SumsByKey) -> dict[str, list[tuple[int, list[int]]]]:
    """Return for each unit the cells that it is in, and what it adds to each sum there."""
    sizes = [key.size for key in stream.keys]
    sums = found.sums.T.tolist()
    vectors: dict[str, list[tuple[int, list[int]]]] = {}
    for (digest, *places), added in zip(found.keys, sums, strict=True):
        cell = _find_cell(places, sizes)
        if cell is not None:
            vectors.setdefault(digest, []).append((cell, added))
    return vectors


def _find_cell(places: list[Any], sizes: list[int]) -> int | None:
    """Return the number of a cell, the last key fastest; None where a key lies outside."""
    cell = 0
    for place, size in zip(places, sizes, strict=True):
        if not 0 <= place < size:
            return None
        cell = cell * size + place
    return cell


def _sum_first_ticks(
    stream: ResolvedStream,
    tick: int,
    vectors: Mapping[str, list[tuple[int, list[int]]]],
    known: Mapping[str, UnitTicks],
) -> TickTotals:
    """Count a unit in its first ticks, so many ticks apart; its rows in other ticks are left out."""
    asked, cells = stream.question, stream.cells
    done = TickTotals([0] * (cells * len(stream.summands)))
    for digest, added in vectors.items():
        before = known.get(digest)
        if before is None:
            used = 0
        elif before.used >= asked.participations or tick - before.last < asked.separation:
            continue
        else:
            used = before.used
        done.units[digest] = UnitTicks(used + 1, tick)
        for cell, sums in added:
            for place, (weight, each) in enumerate(zip(stream.weights, sums, strict=True)):
                done.totals[place * cells + cell] += weight * each
    return done


def _sum_arrivals(
    stream: ResolvedStream,
    tick: int,
    vectors: Mapping[str, list[tuple[int, list[int]]]],
    known: Mapping[str, UnitTicks],
) -> TickTotals:
    """Count who comes and who leaves. A unit that has come as often as it may stays away."""
    asked = stream.question
    done = TickTotals([0] * stream.cells)
    for digest, added in vectors.items():
        before = known.get(digest, UnitTicks(0, tick))
        if before.inside:
            done.units[digest] = replace(before, last=tick)
        elif before.used < asked.participations:
            # One row of a unit is read, so that it comes into one cell.
            cell = added[0][0]
            done.units[digest] = UnitTicks(before.used + 1, tick, cell, inside=True)
            done.totals[cell] += 1
    for digest, before in known.items():
        if before.inside and digest not in vectors:
            done.units[digest] = replace(before, inside=False)
            done.totals[before.cell] -= 1
    return done
