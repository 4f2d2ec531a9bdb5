"""The error of questions asked together beside that of each asked alone for an equal part, on real tables.

    python benchmarks/together.py [--rounds 6] [--keep docs/measured/together.json]

Each workload is released together and, beside it, question by question for its part of the spend: ε/k, or
ρ/k for Gaussian noise. Printed are ratios, together over alone: of the 95 % half-widths of counts and
averages that quotes promise, the best, the worst and the mean; and of the root mean square errors of all that
is released against the exact numbers, on the geometric mean, with its standard error over the rounds. Levels
are compared with an even split over them, all that they had before. For counts with Gaussian noise `bound` is
the least variance that any unbiased linear strategy reaches (ResidualPlanner: Xiao, He, Zhang and Kifer,
2023), over ours: 1 is optimal.

Aims: no half-width above 1.03, and the mean error of every workload below 1. Widths need no rounds; errors
need some 200 of them, a quarter of an hour, for a standard error of a few hundredths.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import sfumato as sf
from sfumato.curator.answers.expected_error import QuestionError
from sfumato.curator.answers.release import Release
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.curator.plan.together.design import list_subsets
from sfumato.curator.plan.together.plan import plan_together
from sfumato.curator.plan.together.strategy import StrategyPlanner
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
DELTA = 1e-6
NUMBERS = ("n", "m", "m2")
GIVEN = {"n": 10_000}
"""Rows of a group, for the half-widths of averages."""
SPENDS = {"pure ε = 1": {"epsilon": 1.0}, "ρ = 0.05": {"rho": 0.05}}
DRUGS = "AVG(num_medications) AS m2"
ADULT = (
    "age workclass fnlwgt education grade marital occupation relationship race sex gain loss hours country"
)


def read_adult() -> tuple[pa.Table, Any, dict[str, Any], list[list[str]]]:
    """Return the rows, the unit, the columns and the workloads of the census table."""
    import gzip

    with gzip.open(DATA / "adult" / "adult.data.gz", "rt") as file:
        lines = [line.strip().split(", ") for line in file if line.strip()]
    names = [*ADULT.split(), "income"]
    rows: dict[str, list[Any]] = {name: [line[at] for line in lines] for at, name in enumerate(names)}
    rows["hours"] = [int(each) for each in rows["hours"]]
    keys = ("sex", "race", "marital", "education")
    columns: dict[str, Any] = {
        name: sf.one_of(*sorted(set(rows[name])), missing=rows[name][0]) for name in keys
    }
    columns["hours"] = sf.between(0, 99, step=1)
    workloads = [
        [count(), count("race"), count("race", "sex")],
        [count(one, other) for at, one in enumerate(keys) for other in keys[at + 1 :]],
        ["SELECT race, sex, marital, COUNT(*) AS n FROM t GROUP BY CUBE (race, sex, marital)"],
        [mean("education"), count("education", "sex"), mean("sex")],
        ["SELECT race, sex, COUNT(*) AS n, AVG(hours) AS m FROM t GROUP BY ROLLUP (race, sex)"],
    ]
    return pa.table({name: rows[name] for name in columns}), sf.ROW, columns, workloads


def read_diabetes() -> tuple[pa.Table, Any, dict[str, Any], list[list[str]]]:
    """Return the rows, the unit, the columns and the workloads of the hospital table."""
    every = parquet.read_table(DATA / "diabetes130" / "diabetic_data.parquet")
    keys = ("gender", "age", "readmitted")
    table = every.select(["patient_nbr", *keys, "time_in_hospital", "num_medications"])
    columns: dict[str, Any] = {}
    for name in keys:
        values = sorted(set(table.column(name).to_pylist()) - {None})
        columns[name] = sf.one_of(*values, missing=values[0])
    columns["time_in_hospital"] = sf.between(1, 14, step=1)
    columns["num_medications"] = sf.between(1, 81, step=1)
    workloads = [
        [count(), count("age"), count("age", "gender"), count("age", "gender", "readmitted")],
        [count("age", "gender"), count("age", "readmitted"), count("gender", "readmitted")],
        ["SELECT age, gender, COUNT(*) AS n FROM t GROUP BY ROLLUP (age, gender)"],
        [mean("age", of="time_in_hospital"), count("age", "readmitted")],
        [f"{mean('age', of='time_in_hospital').replace(' FROM', f', {DRUGS} FROM')}", count("age", "gender")],
    ]
    return table, sf.Unit("patient_nbr", max_rows=40), columns, workloads


def count(*keys: str) -> str:
    """Return the question for counts by these keys."""
    names = ", ".join(keys)
    return f"SELECT {names + ', ' if keys else ''}COUNT(*) AS n FROM t{f' GROUP BY {names}' if keys else ''}"


def mean(*keys: str, of: str = "hours") -> str:
    """Return the question for counts and averages by these keys."""
    names = ", ".join(keys)
    return f"SELECT {names}, COUNT(*) AS n, AVG({of}) AS m FROM t GROUP BY {names}"


class Workload:
    """Questions about one table, asked together and alone, again and again."""

    def __init__(self, lab: sf.Lab, exact: Any, questions: Sequence[str]) -> None:
        self._session, self._questions = lab.session(), list(questions)
        self._exact = [exact(sql) for sql in questions]

    def compare(self, spend: dict[str, float], rounds: int) -> dict[str, float]:
        """Return ratios of errors, together over alone."""
        squares = self._measure(spend, rounds)
        # Leaving out one round at a time says how far the ratio of errors depends on the rounds.
        without = [_compare_errors(np.delete(squares, place, axis=1)) for place in range(rounds)]
        halves = self._compare_widths(spend)
        return {
            "best": min(halves),
            "worst": max(halves),
            "mean": float(np.mean(halves)),
            "error": _compare_errors(squares),
            "deviation": float(np.std(without)) * math.sqrt(rounds - 1),
            "bound": self._compare_bound(spend),
        }

    def _measure(self, spend: dict[str, float], rounds: int) -> Any:
        """Return the mean square error of every number of every question: together and alone, by round."""
        squares: list[list[list[float]]] = [[], []]
        for place in range(rounds):
            # Each round spends a little more, since the same question again would be free.
            paid = {name: each * (1 + 1e-6 * place) for name, each in spend.items()}
            for found, releases in zip(
                squares, (self._ask_together(paid), self._ask_alone(paid)), strict=True
            ):
                found.append(
                    [error for pair in zip(releases, self._exact, strict=True) for error in _errors(*pair)]
                )
        return np.array(squares)

    def _ask_together(self, spend: dict[str, float]) -> list[pa.Table]:
        return [each.to_arrow() for each in self._session.ask_together(self._questions).release(**spend)]

    def _ask_alone(self, spend: dict[str, float]) -> list[pa.Table]:
        if len(self._questions) == 1:
            return [_measure_evenly(self._session, self._questions[0], spend)]
        part = {name: each / len(self._questions) for name, each in spend.items()}
        return [self._session.sql(sql).release(**part).to_arrow() for sql in self._questions]

    def _compare_widths(self, spend: dict[str, float]) -> list[float]:
        """Return the ratios of the half-widths of counts and averages."""
        if len(self._questions) == 1:
            plan = self._session.sql(self._questions[0]).plan(spend)
            even = price_question(plan.resolved, plan.spend, strategy=())
            ours, alone = (_list_halves(each) for each in (plan, even))
            return [one / other for one, other in zip(ours, alone, strict=True)]
        part = {name: each / len(self._questions) for name, each in spend.items()}
        ours = self._session.ask_together(self._questions).quote(**spend, given=GIVEN).error()
        quotes = [self._session.sql(sql).quote(**part, given=GIVEN) for sql in self._questions]
        alone = [half for quote in quotes for half in quote.error().values()]
        return [one / other for one, other in zip(ours.values(), alone, strict=True)]

    def _compare_bound(self, spend: dict[str, float]) -> float:
        """Return the least weighted variance of any Gaussian strategy over ours, for workloads of counts."""
        if "rho" not in spend or any("AVG" in sql for sql in self._questions):
            return math.nan
        tables = self._session._payer.lab.table
        resolved = [ResolvedQuestion(tables, parse_question(sql)) for sql in self._questions]
        noise = GaussianSpend(Fraction(1), "")
        plan = plan_together(resolved, noise)
        pool, items = plan.subject.pools[0], plan.subject.strategies[0]
        if len({pool.sensitivity(each.keys, 0).l2_squared for each in items}) > 1:
            return math.nan
        places = [(each.keys, pool.find_block(each.block)) for each in items]
        design = StrategyPlanner(pool, noise).make_design(places)
        variance = design.variances(np.array([float(each.part) for each in items])).sum()
        unit = pool.sensitivity(items[0].keys, 0).l2_squared
        return _bound_variance(pool.sizes, [each.keys for each in design.asked]) * unit / float(variance)


def _compare_errors(squares: Any) -> float:
    """Return the geometric mean over all numbers of their root mean square errors, together over alone."""
    ours, alone = squares.mean(axis=1)
    return math.exp(float(np.mean(np.log(ours / alone))) / 2)


def _list_halves(plan: Any) -> list[float]:
    """Return the half-widths of all numbers at each level."""
    levels = QuestionError(plan, GIVEN).each_level()
    return [half for each in levels for half in each.half_widths(0.95).values() if half is not None]


def _bound_variance(sizes: Sequence[int], asked: Sequence[tuple[int, ...]]) -> float:
    """Return the least sum of cell variances over these marginals at ρ = 1/2 and sensitivity 1."""
    harms: dict[tuple[int, ...], float] = {}
    for keys in asked:
        for part in list_subsets(keys):
            inside = math.prod(1 - 1 / sizes[key] for key in part)
            rest = math.prod(sizes[key] for key in keys if key not in part)
            harms[part] = harms.get(part, 0.0) + inside / rest**2
    costs = {part: math.prod(1 - 1 / sizes[key] for key in part) for part in harms}
    return sum(math.sqrt(harms[part] * costs[part]) for part in harms) ** 2


def _measure_evenly(session: Any, sql: str, spend: dict[str, float]) -> pa.Table:
    """Return the answer of levels that have an even part of the spend each."""
    query = session.sql(sql)
    plan = query.plan(spend)
    even = price_question(plan.resolved, plan.spend, ("evenly", str(spend)), strategy=())
    return Release(even, session._payer.pay(even, sql)).to_arrow()


def _errors(released: pa.Table, exact: dict[tuple[Any, ...], dict[str, float]]) -> Iterator[float]:
    """Yield the mean square error of each number of an answer."""
    numbers = [name for name in released.column_names if name in NUMBERS]
    keys = [name for name in released.column_names if name not in numbers]
    rows = released.to_pylist()
    for name in numbers:
        squares = []
        for row in rows:
            true = exact.get(tuple(row[key] for key in keys), {"n": 0}).get(name)
            if true is not None and row[name] is not None:
                squares.append((row[name] - true) ** 2)
        yield float(np.mean(squares))


def read_exact(sql: str) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return the exact answer of a question, by the keys of its groups."""
    rows = duckdb.sql(sql).to_arrow_table().to_pylist()
    return {tuple(v for k, v in row.items() if k not in NUMBERS): row for row in rows}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return the ratios of all workloads."""
    found = []
    for name, read in (("adult", read_adult), ("diabetes130", read_diabetes)):
        table, unit, columns, workloads = read()
        with tempfile.TemporaryDirectory() as folder:
            lab = sf.create(Path(folder) / "lab")
            lab.register("t", table, unit=unit, columns=columns, budget=sf.Budget(1e6, DELTA))
            duckdb.register("t", table)
            for questions in workloads:
                for said, spend in SPENDS.items():
                    ratios = Workload(lab, read_exact, questions).compare(spend, rounds)
                    line = {"table": name, "spend": said, "questions": questions, **ratios}
                    found.append(line)
                    print(_show(line), flush=True)
    return found


def _show(line: dict[str, Any]) -> str:
    widths = "  ".join(f"{line[name]:4.2f}" for name in ("best", "worst", "mean"))
    bound = "   –" if math.isnan(line["bound"]) else f"{line['bound']:4.2f}"
    numbers = f"{widths}  {line['error']:4.2f} ± {line['deviation']:4.2f}  {bound}"
    kind = "levels" if len(line["questions"]) == 1 else f"{len(line['questions'])} questions"
    return f"{line['table']:<12} {line['spend']:<11} {kind:<12} {numbers}"


def main() -> None:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if not (DATA / "adult").is_dir():
        sys.exit(f"NOT MEASURED: there is no {DATA / 'adult'}")
    print(f"{'':<44} best  worst mean  error          bound")
    found = measure(options.rounds)
    if options.keep is not None:
        options.keep.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
