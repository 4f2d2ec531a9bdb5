"""Bounds that are bought when a table is registered."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog.schema_file import Schema, parse_schema, write_schema
from sfumato.errors import BudgetError, SfumatoError
from sfumato.lab.bounds import choosing

RNG = np.random.default_rng(0)
ROWS = RNG.permutation(np.repeat(np.arange(600), 1 + np.minimum(RNG.geometric(0.4, 600), 6)))
VISITS = pa.table(
    {
        "who": ROWS,
        "cost": RNG.uniform(0, 90, len(ROWS)),
        "score": RNG.integers(1, 11, len(ROWS)),
        "debt": -RNG.uniform(0, 4, len(ROWS)),
        "none": pa.nulls(len(ROWS), pa.float64()),
    }
)
BUDGET = sf.Budget(epsilon=10)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


def refuse(call: Any) -> SfumatoError:
    with pytest.raises(SfumatoError) as refused:
        call()
    return refused.value


def test_bounds_are_bought_once_and_declared(lab: sf.Lab) -> None:
    columns = {
        "cost": sf.between(sf.choose(epsilon=0.5)),
        "score": sf.between(sf.choose(epsilon=0.5), step=1, missing=0),
        "debt": sf.between(sf.choose(epsilon=0.5, keep=0.9)),
    }
    lab.register(
        "visits", VISITS, unit=sf.Unit("who", max_rows=sf.choose(epsilon=0.5)), columns=columns, budget=BUDGET
    )
    table = lab.table("visits")
    assert 5 <= table.unit.max_rows <= 34  # nobody has more than 7 rows
    bounds = {name: (int(each.low), int(each.high)) for name, each in table.columns.items()}  # type: ignore[union-attr]
    assert bounds["cost"][0] in (0, 1, 2, 5)
    assert bounds["cost"][1] in (100, 200, 500)
    assert bounds["score"] in ((0, 10), (0, 20), (0, 50))
    assert -20 <= bounds["debt"][0] < 0 == bounds["debt"][1]
    kinds = [entry.kind for entry in lab.ledger.read_entries()]
    assert kinds.count("charge") == kinds.count("release") == 1
    assert lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).left == 8
    assert "1 of 1 charges answered" in str(lab.verify())
    assert not lab.contents.leftovers


def test_what_was_bought_is_shown_and_kept(lab: sf.Lab) -> None:
    unit = sf.Unit("who", max_rows=sf.choose(epsilon=1))
    lab.register("visits", VISITS, unit=unit, columns={"cost": sf.between(0, 100)}, budget=BUDGET)
    rows = lab.table("visits").unit.max_rows
    said = str(lab.session().tables["visits"])
    assert f"max_rows = {rows} was chosen privately (ε = 1, entry" in said
    assert sf.open(lab.folder).table("visits") == lab.table("visits")
    lab.advance("visits", VISITS)
    assert lab.table("visits").chosen
    assert lab.table("visits").unit.max_rows == rows
    lab.advance("visits", VISITS, max_rows=rows + 1)
    assert not lab.table("visits").chosen


def test_a_new_snapshot_may_choose_anew(lab: sf.Lab) -> None:
    lab.register(
        "visits",
        VISITS,
        unit=sf.Unit("who", max_rows=500),
        columns={"cost": sf.between(0, 9000)},
        budget=BUDGET,
    )
    lab.advance(
        "visits", VISITS, max_rows=sf.choose(epsilon=1), columns={"cost": sf.between(sf.choose(epsilon=1))}
    )
    table = lab.table("visits")
    assert table.snapshot == 2
    assert table.unit.max_rows < 50
    assert table.columns["cost"].high < 1000
    assert lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1).receipt.entry > 0


def test_rows_as_units_choose_their_columns(lab: sf.Lab) -> None:
    public = {"neighbours": sf.REPLACE_ONE, "rows": len(ROWS)}
    for name, more in (("rows", {}), ("counted", public)):
        cost = sf.between(sf.choose(epsilon=1))
        lab.register(name, VISITS, unit=sf.ROW, columns={"cost": cost}, budget=BUDGET, **more)  # type: ignore[arg-type]
        assert lab.table(name).columns["cost"].high <= 500  # type: ignore[union-attr]
    plan = choosing.plan_choices(
        lab.table("counted"), (choosing.ValuesChoice("cost", sf.between(sf.choose(epsilon=1))),)
    )
    assert plan.steps[0].measured[0].noise.scale == 2  # type: ignore[union-attr]  # one row leaves a cell and joins another


def test_a_choice_that_noise_decides_is_charged_and_registers_nothing(lab: sf.Lab) -> None:
    problem = refuse(
        lambda: lab.register(
            "visits", VISITS, unit=sf.Unit("who", max_rows=sf.choose(epsilon=0.001)), budget=BUDGET
        )
    )
    assert problem.code == "SF-Q211"
    assert "stays charged" in problem.facts["charged"]
    assert not lab.tables()
    assert not lab.contents.leftovers
    assert [entry.kind for entry in lab.ledger.read_entries()].count("charge") == 1
    lab.register("visits", VISITS, unit=sf.Unit("who", max_rows=5), columns={}, budget=BUDGET)
    problem = refuse(lambda: lab.advance("visits", VISITS, max_rows=sf.choose(epsilon=0.001)))
    assert problem.code == "SF-Q211"
    assert lab.table("visits").unit.max_rows == 5
    assert lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1).receipt.entry > 0


def test_missing_values_are_no_values(lab: sf.Lab) -> None:
    columns = {"none": sf.between(sf.choose(epsilon=1))}
    problem = refuse(lambda: lab.register("v", VISITS, unit=sf.ROW, columns=columns, budget=BUDGET))
    assert problem.code == "SF-Q211"


def test_what_costs_nothing(lab: sf.Lab) -> None:
    """Everything that is wrong with a declaration is said before anything is charged."""
    chosen = sf.choose(epsilon=0.1)
    unit = sf.Unit("who", max_rows=chosen)
    wrong: dict[str, dict[str, Any]] = {
        "SF-Q218": {"unit": sf.Unit("who", max_rows=sf.choose(epsilon=1e-12)), "columns": {}},
        "SF-C205": {"unit": unit, "columns": {"nothing": sf.between(chosen)}},
        "SF-Q144": {"unit": sf.PUBLIC, "columns": {"cost": sf.between(chosen)}},
        "SF-U104": {"unit": unit, "columns": {}, "neighbours": sf.REPLACE_ONE},
        "SF-N101": {"unit": unit, "columns": {"cost": sf.between(sf.choose(epsilon=1), step=2**60)}},
    }
    for code, said in wrong.items():
        budget = None if said["unit"] is sf.PUBLIC else BUDGET
        assert refuse(partial(lab.register, "v", VISITS, budget=budget, **said)).code == code
    assert refuse(lambda: lab.check("v", VISITS, unit=unit, budget=BUDGET)).code == "SF-U104"
    many = {"cost": sf.between(sf.choose(epsilon=6)), "score": sf.between(sf.choose(epsilon=6))}
    with pytest.raises(BudgetError):  # both together: none of them is charged alone
        lab.register("v", VISITS, unit=sf.ROW, columns=many, budget=BUDGET)
    assert "charge" not in {entry.kind for entry in lab.ledger.read_entries()}
    lab.register("each", VISITS, unit=sf.ROW, columns={}, budget=BUDGET)
    assert refuse(lambda: lab.advance("each", VISITS, max_rows=chosen)).code == "SF-U104"


def test_a_schema_file_says_it_too(lab: sf.Lab, tmp_path: Path) -> None:
    file = tmp_path / "visits.toml"
    file.write_text(
        '[unit]\ncolumn = "who"\nmax_rows = { choose = 1 }\n'
        '[columns.cost]\nbetween = { choose = "0.5", up_to = 1000 }\nmissing = 0\n[budget]\nepsilon = 4\n'
    )
    lab.register("visits", VISITS, schema=file)
    assert len(lab.table("visits").chosen) == 2
    said = parse_schema(file.read_text(), "visits.toml")
    assert parse_schema(write_schema(said), "again") == said
    for wrong in ("max_rows = { keep = 0.9 }", "max_rows = { choose = 1, by = 2 }"):
        text = f'[unit]\ncolumn = "who"\n{wrong}\n'
        assert refuse(partial(parse_schema, text, "v.toml")).code == "SF-C127"


def test_an_open_choice_never_becomes_a_table() -> None:
    from sfumato.curator.catalog.catalog import declare_table

    with pytest.raises(AssertionError):
        declare_table("v", sf.Unit("who", max_rows=sf.choose(epsilon=1)), {})
    with pytest.raises(SfumatoError):
        declare_table("v", sf.ROW, {"cost": sf.between(sf.choose(epsilon=1))})
    assert not choosing.list_choices(Schema(sf.ROW, {}, None, sf.ADD_REMOVE, None))
