"""kill −9 at every named step of a checkpoint: the run goes on under its first charge, with new noise."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato as sf
import warm
from sfumato.privacy.account import price
from sfumato.privacy.events import Gaussian, Repeated, Sampled

SCRIPT = Path(__file__).with_name("trainer_killed.py")
STEPS, PRICED = 6, 8
PARTS = (("own", "file"), ("lab", "file"), ("lab", "charge"), ("lab", "answer"))
MANY = [pytest.param(*part, 20, marks=pytest.mark.slow) for part in PARTS]


def register(folder: Path) -> None:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    table = pa.table({"x0": x[:, 0], "x1": x[:, 1], "kind": np.where(x[:, 0] > 0, "yes", "no")})
    columns = {"x0": sf.between(-1, 1), "x1": sf.between(-1, 1), "kind": sf.one_of("no", "yes")}
    lab = sf.create(folder / "lab")
    lab.register("t", table, unit=sf.ROW, columns=columns, budget=sf.Budget(10**6, 1e-3))
    lab.ledger.close()


@pytest.mark.parametrize(("where", "part", "rounds"), [("lab", "few", 1), *MANY])
def test_a_run_killed_at_every_step(tmp_path: Path, where: str, part: str, rounds: int) -> None:
    if where == "lab":
        register(tmp_path)
    done = warm.run([SCRIPT, tmp_path, rounds, part], extras=("torch",), check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    deaths, ends = [each for each in lines if "step" in each], [each for each in lines if "weights" in each]
    assert {death["signal"] for death in deaths} == {signal.SIGKILL}
    steps = len({death["step"] for death in deaths})
    assert (len(deaths), len(ends)) == (rounds * steps, (rounds + 1) * steps)
    found: dict[str, list[Any]] = defaultdict(list)
    for end in ends:
        found[end["path"]].append(end)
    for each in found.values():
        assert each[0] == each[-1]  # what was finished is given again
        assert each[0]["times"] == PRICED

    noise: list[list[float]] = []
    for path in tmp_path.glob("*.noise"):
        taken = [json.loads(line) for line in path.read_text().splitlines()]
        # One death loses one stretch at most, which is a step here; steps on made-up rows are not counted.
        rehearsed = 2 if where == "lab" else 0
        assert STEPS <= len(taken) <= PRICED + rehearsed
        noise += taken
    drawn = np.array(sorted(noise))
    # Of 10⁷ pairs none is this near in four numbers by chance: the odds are 10⁻³⁰. Repeated noise would be.
    assert np.abs(np.diff(drawn, axis=0)).max(axis=1).min() > 1e-9
    if where == "lab":
        _require_single_charges(tmp_path, len(deaths), ends[0]["sigma"])


def _require_single_charges(folder: Path, runs: int, sigma: float) -> None:
    lab = sf.open(folder / "lab")
    verified = lab.verify()
    assert (verified.charges, verified.releases) == (runs, runs)
    spent = lab.ledger.read_spent("population:t")
    assert spent == price(Repeated(Sampled(Gaussian(sigma), 0.5), PRICED)) * runs
