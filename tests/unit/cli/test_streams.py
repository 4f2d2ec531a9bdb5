"""`sfumato stream`: quoted, begun, run, listed and shown, from the shell."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from sfumato.cli.main import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    days = [date(2026, 1, 1), date(2026, 1, 1), date(2026, 1, 3)]
    table = pa.table({"who": [1, 2, 3], "day": days, "ward": ["A", "B", "A"]})
    pq.write_table(table, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def read(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_a_stream_from_the_shell(tmp_path: Path, source: Path) -> None:
    folder = str(tmp_path / "lab")
    run("init", folder)
    run(
        "table", "add", "visits", str(source), "--lab", folder, "--unit", "who", "--max-rows", "5",
        "--between", "day", "2026-01-01", "2026-12-31", "--one-of", "ward", "A,B",
        "--epsilon", "10000000", "--delta", "1e-6",
    )  # fmt: skip
    assert "No stream was begun" in run("stream", "list", "--lab", folder)
    asked = ["visits", "--time", "day", "--horizon", "9", "--by", "ward", "--rho", "100000", "--lab", folder]
    assert not read("stream", "quote", *asked)["free"]
    run("stream", "through", "visits", "day", "2026-01-02", "--lab", folder)
    begun = read("stream", "begin", *asked)
    assert begun["values"] == [[1, 1], [1, 1]]
    run("table", "advance", "visits", str(source), "--lab", folder, "--through", "day", "2026-01-04")
    name = read("stream", "list", "--lab", folder)[0]["stream"]
    assert name == begun["stream"]
    assert read("stream", "run", name[:6], "--lab", folder, "--ticks", "1")["values"][2:] == [[2, 1]]
    assert "3 of 9" in run("stream", "list", "--lab", folder)
    chart = tmp_path / "chart.svg"
    shown = run("stream", "show", name, "--lab", folder, "--window", "1", "--plot", str(chart))
    assert "2026-01-03" in shown
    assert chart.exists()
    assert read("stream", "show", name, "--lab", folder, "--decay", "0.5")["values"][2] == [1.25, 0.25]
    run(
        "stream",
        "blocks",
        "visits",
        "day",
        "month",
        "--epsilon",
        "10000000",
        "--delta",
        "1e-6",
        "--lab",
        folder,
    )
    assert read("stream", "begin", *asked, "--blocks")["values"] == [[1, 1], [1, 1], [2, 1], [2, 1]]
    assert len(read("stream", "list", "--lab", folder)) == 2
    assert "lifetime of one who" in run("budget", "--lab", folder)
    failed = CliRunner().invoke(main, ["stream", "show", "none", "--lab", folder])
    assert failed.exit_code == 2
    assert "SF-U101" in failed.output
