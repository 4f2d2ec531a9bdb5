"""The base package and each extra alone, installed into a clean environment and used there for a moment."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from tests.conformance import servers

from sfumato.engines.spark.java import require_java

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]

LAB = """
import sys
from pathlib import Path
import pyarrow as pa
import sfumato as sf

def answered(rows, **more):
    lab = sf.create(Path(sys.argv[1]) / "lab", **more)
    lab.register("t", rows, unit=sf.ROW, columns={"x": sf.between(0, 9)}, budget=sf.Budget(epsilon=1000))
    answer = lab.session().sql("SELECT COUNT(*) AS n FROM t").release(epsilon=900)
    assert answer.to_arrow()["n"].to_pylist() == [3]
    return lab

ROWS = pa.table({"x": [1, 2, 3]})
"""

USES = {
    "": """
import pkgutil
from importlib import import_module
answered(ROWS)
for module in pkgutil.walk_packages(sf.__path__, "sfumato.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            import_module(module.name)
        except sf.errors.UsageError as error:
            assert error.code == "SF-N113", error
""",
    "learn": """
import numpy as np
X = np.linspace(-1, 1, 1000)[:, None]
model = sf.learn.GaussianNB(epsilon=100, bounds=(-1, 1), classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
assert model.score(X, (X[:, 0] > 0).astype(int)) > 0.9
""",
    "torch": "import torch; assert int(torch.ones(3).sum()) == 3",
    "synth": "import sklearn",
    "spark": """
from pyspark.sql import SparkSession
with SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate() as spark:
    answered(spark.createDataFrame(ROWS))
""",
    "receipts": "assert answered(ROWS).ledger.sign_receipt().is_genuine()",
    "postgres": "answered(ROWS, ledger=sys.argv[2])",
    "server": "import fastapi, jinja2, uvicorn",
    "plot": """
budget = answered(ROWS).budget
assert budget.plot().save(Path(sys.argv[1]) / "budget.png").stat().st_size > 1000
""",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT))
    [built] = folder.glob("*.whl")
    return built


def pip(*told: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", *told]
    subprocess.run(command, check=True, cwd="/")


def test_every_extra_is_used_here() -> None:
    assert set(USES) == {"", *EXTRAS} - {"all", "dev"}


@pytest.mark.slow
@pytest.mark.parametrize("extra", [pytest.param(extra, id=extra or "base") for extra in USES])
def test_an_extra_alone_is_enough(extra: str, wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    pip("--python", python, "install", "-c", str(ROOT / "constraints.txt"), wanted)
    told = [str(tmp_path)]
    if extra == "spark":
        require_java()
    if extra == "postgres":
        folder = servers.running().folder
        told += [f"postgresql://postgres@/postgres?host={folder}#lab_{secrets.token_hex(6)}"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [python, "-c", LAB + USES[extra], *told], env=clean, cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
