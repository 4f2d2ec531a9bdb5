"""`import sfumato` is light, every module imports without extras, and every exported name is there."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = (
    "dp_accounting",
    "duckdb",
    "fastapi",
    "pandas",
    "polars",
    "psycopg",
    "pyarrow",
    "pyspark",
    "scipy",
    "sklearn",
    "sqlglot",
    "torch",
    "vl_convert",
)
OPTIONAL = ("fastapi", "pandas", "polars", "psycopg", "pyspark", "sklearn", "torch", "vl_convert")


def modules() -> Iterator[str]:
    for file in sorted((SOURCE / "sfumato").rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def loaded_after(statements: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running the statements."""
    code = f"import json, sys\n{statements}\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return {name.partition(".")[0] for name in json.loads(output.splitlines()[-1])}


def test_import_sfumato_is_light() -> None:
    loaded = loaded_after("import sfumato")
    assert "sfumato" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_pricing_is_light() -> None:
    priced = "import sfumato as sf; sf.privacy.price(sf.privacy.Sampled(sf.privacy.Gaussian(1), 0.1))"
    assert loaded_after(priced).isdisjoint({*HEAVY, "mpmath"})


def test_pictures_are_light_until_they_are_saved() -> None:
    loaded = loaded_after("import sfumato as sf; sf.viz.bars(['A'], [1], title='t').to_json()")
    assert loaded.isdisjoint(HEAVY)


def test_an_answer_needs_no_pandas(tmp_path: Path) -> None:
    """Which Arrow would import to make a table, and which is larger than all the rest."""
    asked = f"""
import sfumato as sf
from pathlib import Path
Path("{tmp_path}/visits.csv").write_text("patient,ward,cost\\n1,A,20\\n2,B,30\\n")
lab, unit, budget = sf.create("{tmp_path}/lab"), sf.Unit("patient", max_rows=2), sf.Budget(epsilon=9)
columns = {{"ward": sf.one_of("A", "B"), "cost": sf.between(0, 100)}}
lab.register("visits", "{tmp_path}/visits.csv", unit=unit, columns=columns, budget=budget)
sql = "SELECT ward, COUNT(*) AS n, AVG(cost) AS c, MEDIAN(cost) AS m FROM visits GROUP BY ward"
answer = lab.session().sql(sql).release(epsilon=1)
answer.to_arrow(), answer.interval(), str(answer)"""
    assert loaded_after(asked).isdisjoint(OPTIONAL)


BUILT_ON_EXTRAS = tuple(f"sfumato.{name}." for name in ("deep", "learn", "server"))


def test_all_but_learners_and_the_server_imports_without_extras() -> None:
    """Those are scikit-learn's, torch's and FastAPI's in kind, and are imported when they are first named."""
    others = (name for name in modules() if not f"{name}.".startswith(BUILT_ON_EXTRAS))
    assert loaded_after("\n".join(f"import {name}" for name in others)).isdisjoint(OPTIONAL)


def test_the_oracle_answers_without_scikit_learn() -> None:
    """Synthesis, streams and deep nets stand on it too; threadpoolctl comes with scikit-learn alone."""
    oracle = [name for name in modules() if f"{name}.".startswith("sfumato.oracle.")]
    asked = """
import sys
from fractions import Fraction
for name in ("sklearn", "threadpoolctl"):
    sys.modules[name] = None
{imports}
import numpy as np
given = sfumato.oracle.arrays.features.read_arrays(
    np.tile([[0.5, -0.5, 0.25]], (1000, 1)), sfumato.oracle.arrays.integer_rows.ArrayBounds.of(3, (-1, 1))
)
budget = sfumato.oracle.fit_budget.FitBudget.of({{"epsilon": 1}}, Fraction(0))
prices = []
oracle = sfumato.oracle.over_arrays.ArrayOracle(given.declared, budget, given.arrays, prices.append)
blocks = [
    sfumato.oracle.moments.build_gram_block(given.declared.features, None, Fraction(1, 2)),
    sfumato.oracle.blocks.SumBlock((sfumato.oracle.blocks.COUNT,), 1, 1, Fraction(1, 2)),
]
products, count = oracle.sums(blocks)
assert abs(count.values[0, 0] - 1000) < 50 * count.deviation and len(prices) == 1
del sys.modules["sklearn"], sys.modules["threadpoolctl"]"""
    loaded = loaded_after(asked.format(imports="\n".join(f"import {name}" for name in oracle)))
    assert loaded.isdisjoint(OPTIONAL)


@pytest.mark.parametrize("name", list(modules()))
def test_every_exported_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert [one for one in exported if not hasattr(module, one)] == []
    assert len(set(exported)) == len(exported)
