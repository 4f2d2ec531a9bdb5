"""The door of streams, replayed: ticks of two tables that differ by one patient, and planted mistakes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit.replay import Replayed, replay
from sfumato.curator.streams.plan import ResolvedStream
from sfumato.curator.streams.state import StreamState
from sfumato.noise import RunningSums
from sfumato.privacy import Gaussian

DAYS = 6
COLUMNS = {"day": sf.between(0, DAYS - 1, step=1), "cost": sf.between(-8, 16, step=1)}
COUNT = {"measure": sf.count(), "participations": 3}
ASKED: list[dict[str, Any]] = [
    COUNT,
    {"measure": sf.mean("cost"), "participations": 2, "separation": 3, "contribution": 2},
    {"measure": sf.units("who")},
    {"measure": sf.units("who"), "window": 2, "participations": 2},
]


def visits(seed: int) -> pa.Table:
    """The first patient comes twice every day, with the greatest cost; others as they like."""
    rng = np.random.default_rng(seed)
    who = [0] * (2 * DAYS) + rng.integers(1, 9, 40).tolist()
    day = [*range(DAYS)] * 2 + rng.integers(0, DAYS, 40).tolist()
    cost = [16.0] * (2 * DAYS) + rng.uniform(-10, 20, 40).tolist()
    return pa.table({"who": who, "day": day, "cost": cost})


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    made = sf.create(tmp_path / "clinic")
    full, unit = visits(7), sf.Unit("who", max_rows=40)
    rest = full.filter(pa.array([who != 0 for who in full["who"].to_pylist()]))
    budget = sf.Budget(epsilon=10**4, delta=1e-6)
    made.register("full", full, unit=unit, columns=COLUMNS, budget=budget)
    made.register("rest", rest, unit=unit, columns=COLUMNS)
    for name in ("full", "rest"):
        made.set_through(name, day=DAYS)
    return made


def audit(lab: sf.Lab, asked: dict[str, Any]) -> Replayed:
    def released(table: str) -> list[float]:
        stream = lab.session().stream(table, time="day", horizon=DAYS, rho=0.5, **asked)
        told: list[float] = stream.run().values().tolist()
        return told

    return replay(released, [("full", "rest")], claim=Gaussian(1))


@pytest.mark.parametrize("asked", ASKED)
def test_streams_keep_their_price(lab: sf.Lab, asked: dict[str, Any]) -> None:
    found = audit(lab, asked)
    assert found.finding is None
    assert found.reached > 0.3


def test_a_price_for_fewer_ticks_than_count_is_caught(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ResolvedStream.mechanism

    def planted(stream: ResolvedStream, multiplier: Fraction) -> RunningSums:
        return replace(right(stream, multiplier), participations=1)

    monkeypatch.setattr(ResolvedStream, "mechanism", planted)
    assert audit(lab, COUNT).violates


def test_a_stream_that_forgets_who_was_counted_is_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamState, "find_units", lambda *_: {})
    assert audit(lab, COUNT).violates


def test_rows_beyond_the_contribution_are_caught(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ResolvedStream.program

    def planted(stream: ResolvedStream, tick: int) -> Any:
        program = right(stream, tick)
        bounded: Any = program.rows
        return replace(program, rows=replace(bounded, rows_each=2))

    monkeypatch.setattr(ResolvedStream, "program", planted)
    assert audit(lab, COUNT).violates
