"""kill −9 at every named step of a stream: each tick one value, one charge, chain valid, totals exact."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
import warm
from sfumato.privacy.account import NOTHING

SCRIPT = Path(__file__).with_name("stream_killed.py")
BEGINNINGS, STEPS = 5, 10


def year_of_visits(patients: int, rows: int, days: int, seed: int) -> pa.Table:
    """Encounters like those of diabetes130: most patients come once or twice, a few very often."""
    rng = np.random.default_rng(seed)
    eager = rng.gamma(0.6, 1.0, patients)
    who = rng.choice(patients, rows, p=eager / eager.sum())
    return pa.table(
        {
            "patient_id": who + 1000,
            "day": rng.integers(0, days, rows),
            "cost": rng.gamma(2.0, 200.0, rows).round(),
        }
    )


def count_first_ticks(table: pa.Table, days: int, most: int, apart: int) -> list[int]:
    """Counts so far where a patient counts in the first few days that are far enough apart."""
    added = [0] * days
    of_patient: dict[int, set[int]] = {}
    for who, day in zip(table["patient_id"].to_pylist(), table["day"].to_pylist(), strict=True):
        of_patient.setdefault(who, set()).add(day)
    for seen in of_patient.values():
        taken: list[int] = []
        for day in sorted(seen):
            if len(taken) < most and (not taken or day - taken[-1] >= apart):
                taken.append(day)
                added[day] += 1
    return np.cumsum(added).tolist()


A_YEAR = [pytest.param(365, 25, 40_000, part, marks=pytest.mark.slow) for part in range(2)]
"""A year twice, each with twenty-five deaths at every step."""


@pytest.mark.parametrize(("days", "rounds", "rows", "seed"), [(12, 1, 300, 130), *A_YEAR])
def test_a_stream_killed_at_every_step(tmp_path: Path, days: int, rounds: int, rows: int, seed: int) -> None:
    table = year_of_visits(rows // 4, rows, days, seed)
    lab = sf.create(tmp_path / "hospital")
    columns = {"day": sf.between(0, 364, step=1), "cost": sf.between(0, 4096, step=1)}
    unit = sf.Unit("patient_id", max_rows=1000)
    lab.register("visits", table, unit=unit, columns=columns, budget=sf.Budget(10**9, 1e-3))
    lab.set_through("visits", day=364)
    lab.ledger.close()
    few = ["few"] if rounds == 1 else []
    done = warm.run([SCRIPT, lab.folder, days, rounds, *few], check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    deaths, ends = [each for each in lines if "step" in each], [each for each in lines if "values" in each]

    assert {death["signal"] for death in deaths} == {signal.SIGKILL}
    assert len(deaths) == (6 if rounds == 1 else (BEGINNINGS + STEPS) * rounds)
    kept: dict[int, str] = {}
    for death in deaths:
        if "ticks" in death:
            assert kept.setdefault(death["ticks"], death["answer"]) == death["answer"]

    lab = sf.open(lab.folder)
    verified = lab.verify()
    streams, ticks = rounds, days + 2 * (rounds - 1)
    # Every stream is charged once and every tick entered once, whatever was killed.
    assert (verified.charges, verified.releases) == (streams + ticks, streams + ticks)
    charges = [json.loads(entry.body) for entry in lab.ledger.read_entries() if entry.kind == "charge"]
    assert sum(charge["cost"] != NOTHING.to_dict() for charge in charges) == streams
    paid = next(charge["cost"] for charge in charges if charge["cost"] != NOTHING.to_dict())
    spent = lab.ledger.read_spent("population:patient_id")
    assert [each * streams for each in paid["renyi"]] == list(spent.renyi)

    whole = next(end for end in ends if end["least"] == 0)
    assert len(whole["values"]) == days
    exact = count_first_ticks(table, days, most=4, apart=7)
    assert [int(value) for value in whole["values"]] == exact
    released = {number: json.loads(answer)[0] for number, answer in kept.items() if number}
    assert all(whole["values"][number - 1] == sums[0] for number, sums in released.items())
    assert len(ends) == streams
