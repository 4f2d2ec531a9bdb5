"""Streams whose table moves from one engine to another, and whose ledger is shared by copies of a lab."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conformance import servers

import sfumato as sf
import warm
from conformance.both_engines import load
from sfumato.errors import PolicyError

COLUMNS = {"day": sf.between(0, 9, step=1), "ward": sf.one_of("A", "B")}
FIRST = pa.table({"who": ["ann", "bob", "eve"], "day": [0, 0, 0], "ward": ["A", "B", "A"]})
SECOND = pa.table({"who": ["ann", "bob", "cid", "ann"], "day": [1, 1, 1, 1], "ward": ["A", "B", "B", "B"]})
BUDGET = sf.Budget(10**7, 1e-6)


def follow(lab: sf.Lab, **asked: Any) -> Any:
    stated: dict[str, Any] = {"time": "day", "measure": sf.count(), "horizon": 4, "rho": 10**5}
    return lab.session().stream("visits", **stated | asked).run()


def move(tmp_path: Path, elsewhere: Any) -> None:
    """Who was counted on DuckDB is known elsewhere, and back on DuckDB again."""
    lab = sf.create(tmp_path / "lab")
    lab.register("visits", FIRST, unit=sf.Unit("who", max_rows=3), columns=COLUMNS, budget=BUDGET)
    lab.set_through("visits", day=0)
    assert follow(lab).values().tolist() == [3]
    assert follow(lab, by="ward", participations=2).values().tolist() == [[2, 1]]
    lab.advance("visits", elsewhere, through={"day": 1})
    assert follow(lab).values().tolist() == [3, 4]
    told = follow(lab, by="ward", participations=2).values().tolist()
    assert sum(told[1]) == 6
    lab.advance("visits", SECOND.append_column("late", SECOND["day"]), through={"day": 2})
    assert follow(lab).values().tolist() == [3, 4, 4]


def test_a_stream_goes_on_where_its_table_moves_to_postgresql(tmp_path: Path, postgres: str) -> None:
    name = f"visits_{secrets.token_hex(4)}"
    load(postgres, name, SECOND)
    move(tmp_path, f"{postgres}#public.{name}")


def test_a_stream_goes_on_where_its_table_moves_to_spark(tmp_path: Path, spark: Any) -> None:
    move(tmp_path, spark.createDataFrame(SECOND))


def test_copies_that_share_a_ledger_read_all_ticks_and_one_goes_on(tmp_path: Path) -> None:
    address = f"postgresql://postgres@/postgres?host={servers.running().folder}#lab_{secrets.token_hex(6)}"
    lab = sf.create(tmp_path / "lab", ledger=address)
    lab.register("visits", FIRST, unit=sf.Unit("who", max_rows=3), columns=COLUMNS, budget=BUDGET)
    lab.set_through("visits", day=0)
    told = follow(lab).values().tolist()
    shutil.copytree(lab.folder, tmp_path / "copy")
    copy = sf.open(tmp_path / "copy")
    lab.set_through("visits", day=1)
    copy.set_through("visits", day=1)
    told = follow(lab).values().tolist()
    # The copy has a state, and it was the newest when it was copied.
    with pytest.raises(PolicyError, match="SF-S105"):
        follow(copy)
    asked = {"time": "day", "measure": sf.count(), "horizon": 4, "rho": 10**5}
    read = copy.session().stream("visits", **asked)  # type: ignore[arg-type]
    assert read.values().tolist() == told
    verified = lab.verify()
    assert (verified.charges, verified.releases) == (3, 3)


@pytest.mark.slow
def test_a_stream_killed_at_every_step_with_a_ledger_on_a_server(tmp_path: Path) -> None:
    """Each tick has one value and one charge, wherever the process that follows it was killed."""
    script = Path(__file__).parents[1] / "scenarios" / "stream_killed.py"
    address = f"postgresql://postgres@/postgres?host={servers.running().folder}#lab_{secrets.token_hex(6)}"
    lab = sf.create(tmp_path / "lab", ledger=address)
    table = pa.table({"patient_id": [*range(40)], "day": [*range(20)] * 2, "cost": [50.0] * 40})
    columns = {"day": sf.between(0, 364, step=1), "cost": sf.between(0, 4096, step=1)}
    lab.register("visits", table, unit=sf.Unit("patient_id", max_rows=9), columns=columns, budget=BUDGET)
    lab.set_through("visits", day=364)
    done = warm.run([script, lab.folder, 20, 3], check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["signal"] for line in lines if "step" in line} == {signal.SIGKILL}
    ends = {line["least"]: line["values"] for line in lines if "values" in line}
    assert ends == {0: [2.0 * tick for tick in range(1, 21)], 1: [2, 4], 2: [2, 4]}
    verified = lab.verify()
    assert (verified.charges, verified.releases) == (27, 27)
