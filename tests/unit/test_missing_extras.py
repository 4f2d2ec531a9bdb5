"""What people see who have the base package alone: everything but the extras works, and each names itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

BLOCKED = ("cryptography", "fastapi", "jinja2", "pandas", "polars", "psycopg", "pyspark", "sklearn", "torch")
BLOCKED += ("argon2", "uvicorn", "vl_convert")

PROGRAM = """
import json, pkgutil, sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name in sys.argv[1].split() else super().find_spec(name, *where)

sys.meta_path = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
folder = Path(sys.argv[2])

import pyarrow as pa
import sfumato as sf

SERVER = "postgresql://nobody@/nothing"

def lab(name, rows=pa.table({"x": [1, 2, 3]})):
    made = sf.create(folder / name)
    made.register("t", rows, unit=sf.ROW, columns={"x": sf.between(0, 9)}, budget=sf.Budget(epsilon=9))
    return made

def released(name):
    return lab(name).session().sql("SELECT COUNT(*) AS n FROM t").release(epsilon=1)

tried = {
    "learn": lambda: sf.learn,
    "torch": lambda: sf.deep,
    "merf": lambda: sf.synth.MERF(rho=1, bounds=(0, 1), classes=[0, 1]).fit([[0.0], [1.0]], [0, 1]),
    "diffusion": lambda: sf.synth.Diffusion(
        epsilon=1, delta=1e-5, bounds=(0, 1), classes=[0, 1]
    ).fit([[0.0], [1.0]], [0, 1]),
    "learn again": lambda: import_module("sfumato.learn.linear"),
    "postgres": lambda: lab("a", SERVER + "#t"),
    "postgres ledger": lambda: sf.create(folder / "b", ledger=SERVER + "#s"),
    "spark": lambda: lab("c", "spark:t"),
    "server": lambda: import_module("sfumato.server.app"),
    "receipts": lambda: lab("d").ledger.sign_receipt(),
    "plot": lambda: lab("g").budget.plot().save(folder / "t.png"),
    "pandas": lambda: released("e").to_pandas(),
    "polars": lambda: released("f").to_polars(),
}

def said(attempt):
    try:
        return repr(attempt())
    except Exception as error:
        return str(error)

names = [module.name for module in pkgutil.walk_packages(sf.__path__, "sfumato.", onerror=lambda name: None)]
imported = {name: said(lambda: import_module(name)) for name in names if not name.endswith("__main__")}
print(json.dumps({"said": {name: said(attempt) for name, attempt in tried.items()}, "imported": imported}))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    command = [sys.executable, "-c", PROGRAM, " ".join(BLOCKED), str(tmp_path_factory.mktemp("bare"))]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, str]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize(
    ("tried", "extra"),
    [
        ("learn", "learn"),
        ("learn again", "learn"),
        ("torch", "torch"),
        ("merf", "torch"),
        ("diffusion", "torch"),
        ("postgres", "postgres"),
        ("postgres ledger", "postgres"),
        ("spark", "spark"),
        ("server", "server"),
        ("receipts", "receipts"),
        ("plot", "plot"),
    ],
)
def test_a_missing_extra_says_how_it_is_installed(
    bare: dict[str, dict[str, str]], tried: str, extra: str
) -> None:
    said = bare["said"][tried]
    assert said.startswith("SF-N113  ")
    assert said.endswith(f'pip install "sfumato[{extra}]"')


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_frame_library_is_named(bare: dict[str, dict[str, str]], library: str) -> None:
    said = bare["said"][library]
    assert said.startswith(f"SF-N113  {library} is not installed.")
    assert said.endswith(f"pip install {library}, or use to_arrow()")


def test_every_other_room_imports_without_extras(bare: dict[str, dict[str, str]]) -> None:
    refused = {name: said for name, said in bare["imported"].items() if not said.startswith("<module")}
    assert len(bare["imported"]) > 100
    assert {name.split(".")[1] for name in refused} == {"deep", "learn", "server"}
    assert all(said.startswith("SF-N113") for said in refused.values())
