"""Every engine answers what docs/engines.md says it answers, and lacks what it says it lacks."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import find_loader
from sfumato.engines.support import ENGINES, SUPPORT
from sfumato.errors import SfumatoError

SIZE = 60
DRAW = random.Random(0)
VISITS = pa.table(
    {
        "who": [i // 3 for i in range(SIZE)],
        "cost": [DRAW.uniform(0, 10) for _ in range(SIZE)],
        "age": [DRAW.randrange(90) for _ in range(SIZE)],
        "ward": [DRAW.choice("AB") for _ in range(SIZE)],
        "note": [DRAW.choice(["pain", "ache", ""]) for _ in range(SIZE)],
        "day": [datetime.date(2020 + i % 3, 1, 5) for i in range(SIZE)],
    }
)
WARDS = pa.table({"ward": ["A", "B"], "beds": [3, 4]})
FRIENDS = pa.table({"a": [1, 2, 3], "b": [2, 3, 4]})
COLUMNS = {
    "cost": sf.between(0, 10),
    "age": sf.between(0, 100),
    "ward": sf.one_of("A", "B"),
    "note": sf.text(),
    "day": sf.between(datetime.date(2020, 1, 1), datetime.date(2022, 12, 31)),
}


APART = {"Spark": pytest.mark.with_spark}


@pytest.mark.parametrize("engine", [pytest.param(each, marks=APART.get(each, ())) for each in ENGINES])
def test_what_the_page_says(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = find_loader(engine, request)
    lab, budget = sf.create(tmp_path / "lab"), sf.Budget(epsilon=10**6, delta=1e-4)
    unit = sf.Unit("who", max_rows=3, of="people")
    lab.register("visits", source(VISITS), unit=unit, columns=COLUMNS, budget=budget)
    lab.register("stays", source(VISITS), unit=unit, columns={"age": sf.between(0, 100)})
    beds = {"ward": sf.one_of("A", "B"), "beds": sf.between(0, 9)}
    lab.register("wards", source(WARDS), unit=sf.PUBLIC, columns=beds)
    chosen = sf.Unit("who", max_rows=sf.choose(epsilon=50), of="people")
    lab.register("chosen", source(VISITS), unit=chosen, columns={"cost": sf.between(sf.choose(epsilon=50))})
    assert (lab.table("chosen").unit.max_rows, lab.table("chosen").columns["cost"].high) == (3, 10)  # type: ignore[union-attr]
    for support in SUPPORT:
        if "s.graph" in support.example:
            assert _registering(lab, source(FRIENDS), budget) == support.lacking.get(engine)
        if engine not in support.lacking:
            asked = eval(support.example, {"s": lab.session(), "sf": sf})
            spend = {"delta": 1e-6} if "discovered" in support.question else {}
            assert asked.release(epsilon=50, **spend).receipt.entry > 0, support.question


def _registering(lab: sf.Lab, friends: Any, budget: sf.Budget) -> str | None:
    try:
        lab.register("friends", friends, unit=sf.Edge("a", "b", max_degree=5), budget=budget)
    except SfumatoError as refused:
        return refused.code
    return None
