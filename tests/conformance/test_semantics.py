"""What an engine answers is what was asked: by a plain reading of every program, and by plain SQL.

Random questions meet random tables twice. The integers equal those of `reference.py` exactly. And the SQL
that the analyst typed, run on the bounded data by a database that knows nothing of us, gives the same:
exactly where arithmetic is exact, and within a step a row where something was rounded down.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from conformance.generate import Asked, ask, ask_sizes
from conformance.reference import Reference
from conformance.worlds import World, make, sizes, stored
from sfumato.curator.catalog.calendar import start_of_period
from sfumato.curator.catalog.domains import Domain, FreeTexts, Listed, Numbers, Periods
from sfumato.curator.plan.plan import QuestionPlan
from sfumato.curator.plan.steps import Choices, DiscoveredKeys
from sfumato.curator.question.measurement import (
    MINIMUM_SHARE,
    Aggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.engines.program import HistogramCounts
from sfumato.engines.rows import Bounded, Scan
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path


MOST_ROWS = 2000
"""In any one group of a world, after joins."""


@dataclass(frozen=True)
class Read:
    """A world, a reference that reads its snapshots, and a database with its bounded data."""

    world: World
    reference: Reference
    plain: duckdb.DuckDBPyConnection

    @classmethod
    def of(cls, folder: Path, seed: int) -> Read:
        world = make(folder, seed, neighbours=False)
        by_name = {table.snapshot_name: table for table in world.tables.values()}
        whole = world.engine.folder
        rows = cache(lambda name: stored(whole, by_name[name]))
        return cls(world, Reference(rows, lambda name: sizes(whole, by_name[name])), world.decoded())


def _questions(
    read: Read, draw: random.Random, number: int, tried: Counter[str]
) -> Iterator[tuple[Asked, QuestionPlan]]:
    for i in range(number):
        try:
            case = ask_sizes(draw) if i % 40 == 39 else ask(draw)
            plan = read.world.plan(case.question)
        except PolicyError as refusal:
            tried[refusal.code] += 1
        else:
            tried["questions"] += 1
            yield case, plan


# ---- the plain reading -------------------------------------------------------------------------------------


def _ties(rows: Any) -> bool:
    """Whether which rows are kept is not said, because several have one place."""
    return isinstance(rows, Bounded) and not isinstance(rows.rows, Scan)


def _answered(found: Any) -> Any:
    """What an engine answers, as the reference says it."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, HistogramCounts):
        return found.triplets().tolist()
    sums = zip(found.keys, found.units.tolist(), *found.sums.tolist(), strict=True)
    return {key: tuple(numbers) for key, *numbers in sums}


def _same_integers(read: Read, plan: QuestionPlan, case: Asked, tried: Counter[str]) -> None:
    for step in plan.steps:
        if _ties(step.program.rows):
            continue
        got = _answered(read.world.engine.run(step.program))
        assert got == read.reference.run(step.program), (case.sql, step.program)
        tried["programs"] += 1


# ---- plain SQL ---------------------------------------------------------------------------------------------


def _shown(domain: Domain, value: Any) -> Any:
    """What a key stands for, so that it compares with what plain SQL says."""
    if value is None:
        return None
    match domain:
        case Numbers(step=step):
            return Fraction(value) * step
        case Listed(values):
            return values[value]
        case Periods(unit=unit):
            return _moment(start_of_period(value, unit))
        case FreeTexts():
            return value


def _told(value: Any) -> Any:
    if isinstance(value, date):
        return _moment(value)
    return Fraction(value) if isinstance(value, float | int) and not isinstance(value, bool) else value


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


@dataclass(frozen=True)
class Cell:
    """What is known of one cell: exact sums by their terms, and tallies by the quantiles they answer."""

    plan: QuestionPlan
    sums: list[int]
    tallies: list[dict[int, int]]
    exact: bool

    def number(self, aggregate: Aggregate) -> tuple[float | None, float]:
        """The answer without noise, and how far rounding down may have taken it."""
        if isinstance(aggregate, QuantileOf):
            return self._quantile(aggregate)
        sums = [self.sums[place] for place in self.plan.sums(aggregate)]
        parts = [self.plan.measured[place].of for place in self.plan.sums(aggregate)]
        n = sums[-1]
        match aggregate:
            case CountOf() | DistinctUnits():
                return n, 0
            case SumOf():
                return float(sums[0] * parts[0].step), self._within(parts[0]) * MOST_ROWS
            case MeanOf():
                return self._mean(sums[0], parts[0], n), self._within(parts[0])
            case VarianceOf():
                return self._variance(aggregate, sums, parts, n)
            case CovarianceOf():
                return self._covariance(aggregate, sums, parts, n)

    def _within(self, part: Any) -> float:
        """How far one row can be rounded down; a quotient by a step of its own, which may be half a step."""
        return float((part.slack + (0 if self.exact else 2)) * part.step)

    def _mean(self, total: int, part: Any, n: int) -> float | None:
        return float((Fraction(total, n) + part.centre) * part.step) if n else None

    def _variance(
        self, aggregate: VarianceOf, sums: list[int], parts: list[Any], n: int
    ) -> tuple[Any, float]:
        if n < 2:
            return None, math.inf
        spread = Fraction(sums[0], n) * parts[0].step - (Fraction(sums[1], n) * parts[1].step) ** 2
        value = float(spread) * (n / (n - 1) if aggregate.sample else 1)
        slack = _slack(parts) * 2
        if aggregate.root:
            return math.sqrt(max(value, 0)), math.sqrt(slack) + 1e-3 * math.sqrt(max(value, 0)) + 1e-6
        return value, slack + abs(value) * 1e-6 + 1e-6

    def _covariance(
        self, aggregate: CovarianceOf, sums: list[int], parts: list[Any], n: int
    ) -> tuple[Any, float]:
        if n < 2 or aggregate.scaled:
            return None, math.inf
        product, one, other = (
            Fraction(total, n) * part.step for total, part in zip(sums[:3], parts, strict=False)
        )
        value = float(product - one * other) * (n / (n - 1) if aggregate.sample else 1)
        return value, _slack(parts) * 2 + abs(value) * 1e-6 + 1e-6

    def _quantile(self, aggregate: QuantileOf) -> tuple[float | None, float]:
        """By the rule of PERCENTILE_CONT, which is between two values; on a coarser grid, within a step."""
        ranked = enumerate(self.plan.resolved.choices)
        place, part = next((i, part) for i, (part, together) in ranked if aggregate in together)
        domain: Any = part.domain
        values = [at for at, n in sorted(self.tallies[place].items()) for _ in range(n)]
        return (_at_share(values, aggregate.share, domain), float(domain.step)) if values else (None, 0)


def _slack(parts: list[Any]) -> float:
    return float(sum(part.slack * part.step * max(1, parts[1].bound) for part in parts[:1])) + float(
        sum(part.slack * part.step for part in parts)
    )


def _at_share(values: list[int], share: Fraction, domain: Any) -> float:
    share = Fraction(0) if share == MINIMUM_SHARE else Fraction(1) if share == 1 - MINIMUM_SHARE else share
    exact = share * (len(values) - 1)
    low = math.floor(exact)
    high = min(low + 1, len(values) - 1)
    place = values[low] + (exact - low) * (values[high] - values[low])
    return float((place + domain.low) * domain.step)


@dataclass(frozen=True)
class Cells:
    """Every cell by what its keys stand for; one that is not there is empty."""

    plan: QuestionPlan
    exact: bool
    known: dict[tuple[Any, ...], Cell]

    @classmethod
    def of(cls, read: Read, plan: QuestionPlan, exact: bool) -> Cells:
        domains = [key.domain for key in plan.resolved.keys]
        if any(isinstance(step, DiscoveredKeys) for step in plan.steps):
            found = _answered(read.world.engine.run(plan.steps[0].program))
            known = {_named(domains, key): Cell(plan, sums, [], exact) for key, (_, *sums) in found.items()}
            return cls(plan, exact, known)
        shape = [key.size for key in plan.resolved.keys]
        sums, tallies = _answers(read, plan)
        there = set(np.flatnonzero(np.any(sums != 0, axis=0)).tolist()).union(*tallies)
        return cls(
            plan,
            exact,
            {
                _named(domains, _places(domains, np.unravel_index(cell, shape))): Cell(
                    plan, [int(x) for x in sums[:, cell]], [each.get(cell, {}) for each in tallies], exact
                )
                for cell in there
            },
        )

    def __getitem__(self, names: tuple[Any, ...]) -> Cell:
        return self.known.get(names) or Cell(
            self.plan, [0] * len(self.plan.measured), [{}] * len(self.plan.steps), self.exact
        )


def _places(domains: list[Any], at: Any) -> list[int | None]:
    """The last place of a key, beyond its domain, is for rows where it is missing."""
    return [
        int(place) + domain.low if place < domain.size else None
        for domain, place in zip(domains, at, strict=True)
    ]


def _named(domains: list[Any], key: Any) -> tuple[Any, ...]:
    return tuple(_shown(domain, value) for domain, value in zip(domains, key, strict=True))


def _answers(read: Read, plan: QuestionPlan) -> tuple[np.ndarray, list[dict[int, dict[int, int]]]]:
    """Exact sums, a row a term; and for each choice the tally of each cell."""
    sums, tallies = np.zeros((0, plan.resolved.cells), dtype=object), []
    for step in plan.steps:
        exact = read.world.engine.run(step.program)
        if isinstance(step, Choices):
            tallies.append(_tally(exact))
        else:
            sums = exact
    return sums, tallies


def _tally(exact: HistogramCounts) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for cell, place, n in exact.triplets().T.tolist():
        found.setdefault(cell, {})[place] = n
    return found


def _same_as_plain(read: Read, plan: QuestionPlan, case: Asked, tried: Counter[str]) -> None:
    cells, aggregates = Cells.of(read, plan, case.exact), [output.shows for output in plan.question.outputs]
    keys = case.keys
    # A key that discovery or a condition leaves out when it is missing has no group for that.
    nulls = [key.nulls for key in plan.resolved.keys]
    told = {
        tuple(None if part is None else _told(part) for part in row[:keys]): row[keys:]
        for row in read.plain.execute(case.sql).fetchall()
        if all(part is not None or has for part, has in zip(row[:keys], nulls, strict=True))
    }
    for names in cells.known.keys() | told.keys():
        numbers = told.get(names, [None] * len(case.figures))
        for number, aggregate in zip(numbers, aggregates[keys:], strict=True):
            _compare(cells[names], aggregate, number, case, names, tried)


def _compare(cell: Cell, aggregate: Any, number: Any, case: Asked, names: Any, tried: Counter[str]) -> None:
    ours, within = cell.number(aggregate)
    if number is None or math.isnan(number):
        assert not ours or within == math.inf, (case.sql, names, ours)
        return
    if within == math.inf or (isinstance(aggregate, QuantileOf) and "DISC" in case.sql):
        return
    tried["exact" if within == 0 else "near"] += 1
    assert ours is not None, (case.sql, names, number)
    off = abs(ours - float(number))
    assert off <= within + 1e-9 * abs(ours), (case.sql, names, aggregate, ours, number, within)


# ---- what is promised --------------------------------------------------------------------------------------

Check = Callable[[Read, QuestionPlan, Asked, Counter[str]], None]


def _run(
    folder: Path, seeds: range, questions: int, check: Check, wanted: Callable[[Asked], bool]
) -> Counter[str]:
    tried: Counter[str] = Counter()
    for seed in seeds:
        read, draw = Read.of(folder / str(seed), seed), random.Random(seed)
        asked = 0
        while asked < questions:
            for case, plan in _questions(read, draw, 100, tried):
                if wanted(case) and asked < questions:
                    asked += 1
                    # What no row can be in is answered without a step.
                    if plan.steps:
                        check(read, plan, case, tried)
        tried["asked"] += asked
    print(dict(tried))
    return tried


def test_engines_answer_what_the_reference_says(tmp_path: Path) -> None:
    assert _run(tmp_path, range(1), 80, _same_integers, lambda case: True)["programs"] >= 60


def test_plain_sql_on_the_bounded_data_says_the_same(tmp_path: Path) -> None:
    assert _run(tmp_path, range(1), 40, _same_as_plain, lambda case: case.direct)["exact"] >= 40


@pytest.mark.slow
def test_engines_answer_what_the_reference_says_2000_times(tmp_path: Path) -> None:
    assert _run(tmp_path, range(1, 9), 250, _same_integers, lambda case: True)["asked"] == 2000


@pytest.mark.slow
def test_plain_sql_on_the_bounded_data_says_the_same_2000_times(tmp_path: Path) -> None:
    assert _run(tmp_path, range(1, 9), 250, _same_as_plain, lambda case: case.direct)["asked"] == 2000
