"""The heaviest admissible unit changes neither whether a question is answered nor when its reply leaves.

Slots follow from public facts, so no clock is in here: a question must be priced, answered or refused alike
with and without a unit whose every row is as heavy as the catalog allows, with little memory for the engine.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from conformance.both_engines import find_loader, load
from conformance.heavy import Neighbour, draw_question, find_outcome, find_slot, make_neighbours
from sfumato.curator.payer import Payer
from sfumato.curator.plan.work import MOST_BYTES, MOST_OPERATIONS
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.limits import RunLimits, limit_runs
from sfumato.engines.postgres import PostgresEngine
from sfumato.engines.spark import Folder, SparkEngine
from sfumato.engines.support import ENGINES, SUPPORT
from sfumato.errors import SfumatoError

MEMORY = 256 * 2**20
"""Bytes that DuckDB may take: thirty times what one unit may carry."""


def _compare(neighbours: tuple[Neighbour, Neighbour], seed: int, number: int) -> Counter[str]:
    draw, tried = random.Random(seed), Counter[str]()
    for _ in range(number):
        question = draw_question(draw)
        without, with_heaviest = (find_outcome(each, question) for each in neighbours)
        assert without == with_heaviest, question
        assert not without.said.startswith("charged"), (without, question)
        tried["answered" if without.work else "refused"] += 1
        if without.work is not None:
            near = max(without.work.bytes / MOST_BYTES, without.work.operations / MOST_OPERATIONS)
            tried["heavy"] += near > 0.1
    return tried


# ---- generated questions -----------------------------------------------------------------------------------


def _on_duckdb(folder: Path, seed: int) -> tuple[Neighbour, Neighbour]:
    engines = tuple(DuckDBEngine(folder / name, threads=1) for name in ("without", "with"))
    return make_neighbours(seed, (engines[0], engines[1]), lambda table: table)


def _on_postgres(address: str, seed: int) -> tuple[Neighbour, Neighbour]:
    engines = tuple(PostgresEngine(address, f"sfumato_{secrets.token_hex(6)}") for _ in range(2))

    def source(table: pa.Table) -> str:
        name = f"heavy_{secrets.token_hex(6)}"
        load(address, name, table)
        return f"{address}#public.{name}"

    return make_neighbours(seed, (engines[0], engines[1]), source)


def _on_spark(folder: Path, session: Any, seed: int) -> tuple[Neighbour, Neighbour]:
    engines = tuple(SparkEngine(Folder(folder / name)) for name in ("without", "with"))

    def source(table: pa.Table) -> Any:
        path = folder / f"source-{secrets.token_hex(4)}.parquet"
        pq.write_table(table, path)
        return session.read.parquet(str(path))

    return make_neighbours(seed, (engines[0], engines[1]), source)


@pytest.fixture
def little_memory() -> Iterator[None]:
    with limit_runs(RunLimits(memory=MEMORY)):
        yield


@pytest.mark.usefixtures("little_memory")
def test_generated_questions_have_the_same_outcome(tmp_path: Path) -> None:
    tried = _compare(_on_duckdb(tmp_path, 0), 0, 40)
    assert tried["answered"] >= 20
    assert tried["refused"] >= 3
    assert tried["heavy"] >= 2


@pytest.mark.slow
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_generated_questions_have_the_same_outcome(tmp_path: Path, seed: int) -> None:
    tried = _compare(_on_duckdb(tmp_path, seed), seed, 1000)
    assert tried["answered"] >= 500
    assert tried["heavy"] >= 20


@pytest.mark.slow
def test_many_generated_questions_have_the_same_outcome_on_postgres(postgres: str) -> None:
    tried = _compare(_on_postgres(postgres, 5), 5, 600)
    assert tried["answered"] >= 300


@pytest.mark.slow
def test_many_generated_questions_have_the_same_outcome_on_spark(tmp_path: Path, spark: Any) -> None:
    tried = _compare(_on_spark(tmp_path, spark, 6), 6, 560)
    assert tried["answered"] >= 300


# ---- every kind of question --------------------------------------------------------------------------------

ROWS, LONG = 8, "a" * 1000
COLUMNS: dict[str, Any] = {
    "cost": sf.between(0, 10),
    "age": sf.between(0, 100),
    "ward": sf.one_of("A", "B"),
    "note": sf.text(),
    "day": sf.between(*(pa.scalar(days, pa.date32()).as_py() for days in (18262, 19357))),
}


def _tables(heavy: bool) -> dict[str, pa.Table]:
    """People with two short rows each, and one with every row that it may have, with long texts and ends."""
    people = [(who, 1.0, 30 + who, "AB"[who % 2], "pain", 18300 + who) for who in range(20) for _ in range(2)]
    people += [(99, 10.0, 100, "A", LONG, 18262)] * ROWS if heavy else []
    names = ("who", "cost", "age", "ward", "note", "day")
    rows = {name: [row[at] for row in people] for at, name in enumerate(names)}
    visits = pa.table({**rows, "day": pa.array(rows["day"], pa.date32())})
    hub = [(99, other) for other in range(30)] if heavy else []
    edges = [(who, who + 1) for who in range(20)] + hub
    friends = pa.table({"a": [a for a, _ in edges], "b": [b for _, b in edges]})
    return {"visits": visits, "stays": visits, "friends": friends}


def _wards(repeated: bool) -> pa.Table:
    """A public table whose keys are repeated, as a join may find them, or not, as IN needs them."""
    wards = ["A"] * 5 + ["B"] if repeated else ["A", "B"]
    return pa.table({"ward": wards, "beds": [3, 4, 5, 6, 7, 8][: len(wards)]})


def _lab(folder: Path, heavy: bool, source: Callable[[pa.Table], Any], graphs: bool) -> sf.Lab:
    lab, budget = sf.create(folder), sf.Budget(epsilon=10**6, delta=1e-4)
    tables, unit = _tables(heavy), sf.Unit("who", max_rows=ROWS, of="people")
    lab.register("visits", source(tables["visits"]), unit=unit, columns=COLUMNS, budget=budget)
    lab.register("stays", source(tables["stays"]), unit=unit, columns={"age": sf.between(0, 100)})
    beds = {"ward": sf.one_of("A", "B"), "beds": sf.between(0, 9)}
    lab.register("wards", source(_wards(repeated=True)), unit=sf.PUBLIC, columns=beds)
    if graphs:
        lab.register(
            "friends", source(tables["friends"]), unit=sf.Edge("a", "b", max_degree=5), budget=budget
        )
    return lab


APART = {"Spark": (pytest.mark.with_spark, pytest.mark.slow)}


@pytest.mark.parametrize("engine", [pytest.param(each, marks=APART.get(each, ())) for each in ENGINES])
def test_every_kind_has_the_same_outcome(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source, graphs = find_loader(engine, request), engine == "DuckDB"
    labs = [_lab(tmp_path / str(heavy), heavy, source, graphs) for heavy in (False, True)]
    for support in (each for each in SUPPORT if engine not in each.lacking):
        spend = {"delta": 1e-6} if "discovered" in support.question else {}
        outcomes = []
        if "FROM wards WHERE" in support.example:
            for lab in labs:
                lab.advance("wards", source(_wards(repeated=False)))
        for lab in labs:
            asked = eval(support.example, {"s": lab.session(), "sf": sf})
            plan = asked.quote(epsilon=50, **spend).plan
            # Bounds that were picked are released numbers, so the work that follows from them may differ.
            work = None if "picked" in support.question else plan.work
            outcomes.append((work, find_slot(plan), _said(partial(asked.release, epsilon=50, **spend))))
        assert outcomes[0] == outcomes[1], support.question
        assert outcomes[0][-1] == "answered", support.question


def _said(act: Callable[[], object]) -> str:
    try:
        act()
    except SfumatoError as failure:
        return str(failure)
    return "answered"


SPEND: dict[str, Any] = {"epsilon": 30, "delta": 1e-6}
LEARNERS: list[tuple[Callable[[], Any], list[str], str | None]] = [
    (lambda: sf.learn.GaussianNB(**SPEND), ["age", "cost"], "ward"),
    (lambda: sf.learn.LinearRegression(**SPEND), ["age"], "cost"),
    (lambda: sf.learn.DecisionTree(**SPEND, max_depth=1), ["cost"], "ward"),
]


def test_every_round_of_a_fit_has_the_same_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round is the same plan on both; all rounds are answered, and none is above the limits."""
    works: list[Any] = []
    pay = Payer.pay
    monkeypatch.setattr(
        Payer,
        "pay",
        lambda payer, plan, *more: works.append((plan.work, find_slot(plan))) or pay(payer, plan, *more),
    )
    labs = [_lab(tmp_path / str(heavy), heavy, lambda table: table, False) for heavy in (False, True)]
    for make, features, target in LEARNERS:
        first = []
        for lab in labs:
            works.clear()
            lab.session().fit(make(), table="visits", features=features, target=target, rows_per_unit=ROWS)
            first.append(works[0])
        assert first[0] == first[1]
