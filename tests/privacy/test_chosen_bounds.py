"""Choosing a bound keeps its price: registrations of two tables that differ by one person, replayed.

A replay has no false alarms: it compares the inputs of mechanisms and draws nothing of its own.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.noise import LaplaceNoise

RNG = np.random.default_rng(4)
WHO = np.array([0] * 300 + RNG.integers(1, 400, 1500).tolist())
FULL = pa.table(
    {
        "who": WHO,
        "cost": np.where(WHO == 0, 1e9, RNG.gamma(2, 50, len(WHO))),
        "ward": RNG.choice(["A", "B", "C"], len(WHO)),
    }
)
REST = FULL.filter(pa.array(WHO != 0))
NUMBERS = count()


def register_chosen(lab: sf.Lab, source: pa.Table, column: bool) -> list[Any]:
    """Register a table whose bounds are chosen; return them."""
    name, said = f"t{next(NUMBERS)}", sf.choose(epsilon=0.5)
    unit = sf.Unit("who", max_rows=5 if column else said)
    columns = {"cost": sf.between(said)} if column else {}
    lab.register(name, source, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000))
    made = lab.table(name)
    return [str(made.unit.max_rows), *(str((each.low, each.high)) for each in made.columns.values())]  # type: ignore[union-attr]


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.filterwarnings("ignore::sfumato.errors.StewardWarning")
def test_a_choice_keeps_its_price(tmp_path: Path, column: bool) -> None:
    lab = sf.create(tmp_path / "lab")
    found = audit.replay(lambda source: register_chosen(lab, source, column), [(FULL, REST)], claim=0.5)
    assert found.finding is None
    assert found.reached == pytest.approx(1, abs=1e-6)  # the whole price, by the person with the most rows


TUNED = [
    "SELECT COUNT(*) AS n FROM {table}",
    "SELECT SUM(cost) AS s FROM {table} WHERE cost > 0",
    "SELECT ward, SUM(cost) AS s FROM {table} GROUP BY ward",
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM {table} GROUP BY ward",
]


@pytest.mark.filterwarnings("ignore::sfumato.errors.StewardWarning")
def test_tuning_keeps_its_price(tmp_path: Path) -> None:
    lab, unit = sf.create(tmp_path / "lab"), sf.Unit("who", max_rows=50)
    columns = {"cost": sf.between(-100, 1000), "ward": sf.one_of("A", "B", "C")}
    for name, source in (("full", FULL), ("rest", REST)):
        lab.register(name, source, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000))
    session = lab.session()
    for sql in TUNED:
        found = audit.replay(
            lambda table, sql=sql: str(session.question(sql.format(table=table)).tune(epsilon=0.5).picked),  # type: ignore[misc]
            [("full", "rest")],
            claim=0.5,
        )
        assert found.finding is None, sql
        assert found.reached == pytest.approx(1, abs=1e-6), sql


@pytest.mark.filterwarnings("ignore::sfumato.errors.StewardWarning")
def test_a_clip_in_a_release_keeps_its_price(tmp_path: Path) -> None:
    """Counts and the clipped question cost the requested ε together, for the largest values."""
    lab, unit = sf.create(tmp_path / "lab"), sf.Unit("who", max_rows=50)
    columns = {"cost": sf.between(-100, 1000), "ward": sf.one_of("A", "B", "C")}
    for name, source in (("full", FULL), ("rest", REST)):
        lab.register(name, source, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000))
    session = lab.session()
    for sql in (
        "SELECT SUM(cost) AS s FROM {table}",
        "SELECT ward, AVG(cost * cost) AS s FROM {table} GROUP BY ward",
        "SELECT STDDEV(x) AS s FROM (SELECT who, SUM(cost) AS x FROM {table} GROUP BY who)",
    ):

        def ask(table: str, sql: str = sql) -> str:
            asked = session.sql(sql.format(table=table))
            release = asked.release(epsilon=2, clip="auto")
            return f"{release.to_arrow().to_pydict()} {release.caveats[-1].split('ledger')[0]}"

        found = audit.replay(ask, [("full", "rest")], claim=2)
        assert found.finding is None, sql
        assert found.reached > 0.3, sql


@pytest.mark.filterwarnings("ignore::sfumato.errors.StewardWarning")
def test_a_copy_with_half_the_noise_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, honest = sf.create(tmp_path / "lab"), LaplaceNoise.release_for

    def halved(noise: LaplaceNoise, exact: Any, moves: SumSensitivity) -> Any:
        return honest(LaplaceNoise(noise.scale / 2), exact, moves)

    monkeypatch.setattr(LaplaceNoise, "release_for", halved)
    found = audit.replay(lambda source: register_chosen(lab, source, False), [(FULL, REST)], claim=0.5)
    assert found.finding is not None
