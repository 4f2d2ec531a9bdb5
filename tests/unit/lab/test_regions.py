"""Budgets by region: a question is charged to the regions that its rows can come from, and to no other."""

from __future__ import annotations

import io
import json
import runpy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.curator.catalog.catalog import Catalog
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.ledger.history import trace_budget
from sfumato.privacy.account import NOTHING

VERIFIER = Path(__file__).parents[3] / "tools" / "verify_ledger.py"
WARDS = sf.one_of("A", "B", "C", constant=True)
SEXES = sf.one_of("f", "m", constant=True)
VISITS = pa.table(
    {
        "id": [1, 1, 2, 3, 4, 5, 5],
        "ward": ["A", "A", "B", "C", None, "elsewhere", "elsewhere"],
        "sex": ["f", "f", "m", "f", "m", "f", "f"],
        "cost": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "note": ["x", "y", "x", "y", "x", "y", "x"],
    }
)
STAYS = pa.table({"id": [1, 2, 3, 6], "ward": ["B", "B", "A", "A"], "nights": [1, 2, 3, 4]})
SAID: dict[str, Any] = {
    "unit": sf.Unit("id", max_rows=2, regions=["ward"]),
    "columns": {"ward": WARDS, "sex": SEXES, "cost": sf.between(0, 10), "note": sf.text()},
    "budget": sf.Budget(epsilon=1, delta=1e-6),
}
EVERYONE = ("no region", "ward=A", "ward=B", "ward=C")


def make_lab(folder: Path, **said: Any) -> sf.Lab:
    lab = sf.create(folder / "lab")
    lab.register("visits", VISITS, **{**SAID, **said})
    return lab


def add_stays(lab: sf.Lab) -> sf.Lab:
    """Another table about the same people, with wards of its own."""
    columns = {"ward": WARDS, "nights": sf.between(0, 9, step=1)}
    lab.register("stays", STAYS, unit=sf.Unit("id", max_rows=2), columns=columns)
    return lab


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """A lab that is only asked for quotes."""
    lab = add_stays(make_lab(tmp_path_factory.mktemp("asked")))
    wards = pa.table({"ward": ["A", "B"], "beds": [1, 2]})
    columns = {"ward": WARDS, "beds": sf.between(0, 9, step=1)}
    lab.register("wards", wards, unit=sf.PUBLIC, columns=columns)
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return make_lab(tmp_path)


def charged(lab: sf.Lab, sql: str) -> tuple[str, ...]:
    """The regions that a question is charged to, all of them by name."""
    found: tuple[str, ...] = lab.session().sql(sql).quote(epsilon=0.1).regions
    return found or EVERYONE


def left(lab: sf.Lab) -> dict[str, float]:
    regions = lab.budget.to_dict()["population:id"]["regions"]
    return {name: round(each["left_epsilon"], 6) for name, each in regions.items()}


# ---- which regions -----------------------------------------------------------------------------------------

ONE_WARD = {
    "equality": "FROM visits WHERE ward = 'A'",
    "turned": "FROM visits WHERE 'A' = ward AND cost > 1",
    "list": "FROM visits WHERE ward IN ('A')",
    "what is left": "FROM visits WHERE ward <> 'B' AND NOT ward = 'C'",
    "both branches": "FROM visits WHERE (ward = 'A' AND cost > 1) OR (ward = 'A' AND sex = 'f')",
    "like": "FROM visits WHERE ward LIKE 'A%'",
    "case": "FROM visits WHERE CASE WHEN ward = 'A' THEN 1 ELSE 0 END = 1",
    "subquery": "FROM (SELECT ward AS w, cost FROM visits) AS q WHERE w = 'A'",
    "inside": "FROM (SELECT cost FROM visits WHERE ward = 'A') AS q WHERE cost > 1",
    "per unit": "FROM (SELECT id, SUM(cost) AS c FROM visits WHERE ward = 'A' GROUP BY id) AS q",
    "key per unit": """FROM (SELECT id, ward, SUM(cost) AS c FROM visits GROUP BY id, ward) AS q
        WHERE ward = 'A'""",
    "having": "FROM (SELECT id, MIN(cost) AS c FROM visits GROUP BY id, ward HAVING ward = 'A') AS q",
    "window": """FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY id ORDER BY cost) AS r FROM visits) AS q
        WHERE r = 1 AND ward = 'A'""",
    "join": "FROM stays JOIN visits USING (id) WHERE visits.ward = 'A'",
    "joined left": "FROM visits LEFT JOIN stays USING (id) WHERE visits.ward = 'A'",
    "of a left join": "FROM stays LEFT JOIN visits USING (id) WHERE visits.ward = 'A'",
    "public": "FROM visits JOIN wards USING (ward) WHERE visits.ward = 'A'",
    "exists": "FROM stays WHERE EXISTS (SELECT 1 FROM visits AS v WHERE v.id = stays.id AND v.ward = 'A')",
    "in": "FROM stays WHERE id IN (SELECT id FROM visits WHERE ward = 'A')",
    "not exists": """FROM visits WHERE ward IN ('A', 'B') AND
        NOT EXISTS (SELECT 1 FROM visits AS v WHERE v.id = visits.id AND v.cost > 5) AND ward <> 'B'""",
}


@pytest.mark.parametrize("name", ONE_WARD)
def test_rows_of_one_ward_are_charged_to_it(asked: sf.Lab, name: str) -> None:
    assert charged(asked, f"SELECT COUNT(*) AS n {' '.join(ONE_WARD[name].split())}") == ("ward=A",)


# Whatever a unit of another region could still move.
ANYONE = {
    "no condition": "COUNT(*) AS n FROM visits",
    "another column": "COUNT(*) AS n FROM visits WHERE sex = 'f'",
    "filter": "COUNT(*) FILTER (WHERE ward = 'A') AS n FROM visits",
    "groups": "ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "one branch": "COUNT(*) AS n FROM visits WHERE ward = 'A' OR cost > 1",
    "half a case": "COUNT(*) AS n FROM visits WHERE CASE WHEN ward = 'A' THEN 1 ELSE cost END >= 1",
    "coalesce": "COUNT(*) AS n FROM visits WHERE ward = 'A' OR COALESCE(cost, 0) >= 0",
    "another table": "COUNT(*) AS n FROM stays WHERE ward = 'A'",
    "other side": "COUNT(*) AS n FROM stays JOIN visits USING (id) WHERE stays.ward = 'A'",
    "nobody found": "COUNT(*) AS n FROM stays LEFT JOIN visits USING (id) WHERE visits.ward IS NULL",
    "or nobody": """COUNT(*) AS n FROM stays LEFT JOIN visits USING (id)
        WHERE visits.ward = 'A' OR visits.ward IS NULL""",
    "left of a part": """COUNT(*) AS n FROM stays LEFT JOIN
        (SELECT id, SUM(cost) AS c FROM visits WHERE ward = 'A' GROUP BY id) AS q USING (id)""",
    "not in": "COUNT(*) AS n FROM stays WHERE id NOT IN (SELECT id FROM visits WHERE ward = 'A')",
    "exists or": """COUNT(*) AS n FROM stays WHERE nights > 1 OR
        EXISTS (SELECT 1 FROM visits AS v WHERE v.id = stays.id AND v.ward = 'A')""",
    "by a public table": "COUNT(*) AS n FROM visits JOIN wards USING (ward) WHERE beds = 1",
    "averages of answers": "AVG(n) AS n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
    "nothing at all": "COUNT(*) AS n FROM visits WHERE ward = 'A' AND ward = 'B'",
}


@pytest.mark.parametrize("name", ANYONE)
def test_where_anyone_may_count_everyone_is_charged(asked: sf.Lab, name: str) -> None:
    assert charged(asked, f"SELECT {' '.join(ANYONE[name].split())}") == EVERYONE


def test_missing_and_unlisted_values_are_in_no_region(asked: sf.Lab) -> None:
    assert charged(asked, "SELECT COUNT(*) AS n FROM visits WHERE ward IS NULL") == ("no region",)
    assert charged(asked, "SELECT COUNT(*) AS n FROM visits WHERE ward IS NOT NULL") == EVERYONE[1:]
    # Neither = nor <> holds for a missing value.
    assert charged(asked, "SELECT COUNT(*) AS n FROM visits WHERE ward <> 'A'") == EVERYONE[2:]
    assert charged(asked, "SELECT COUNT(*) AS n FROM visits WHERE NOT (ward = 'A' AND cost > 3)") == EVERYONE
    both = "SELECT COUNT(*) AS n FROM visits WHERE COALESCE(ward, 'A') = 'A'"
    assert charged(asked, both) == ("no region", "ward=A")


def test_several_columns_make_regions_and_one_of_them_leaves_some_out(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, unit=sf.Unit("id", max_rows=2, regions=["ward", "sex"]))
    assert charged(lab, "SELECT COUNT(*) AS n FROM visits WHERE ward = 'A'") == (
        "no region",  # a unit whose sex is missing is in none, whatever its ward
        "ward=A, sex=f",
        "ward=A, sex=m",
    )
    only = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'A' AND sex = 'f'"
    assert charged(lab, only) == ("ward=A, sex=f",)


def test_parts_frames_and_fits_are_charged_by_region_too(lab: sf.Lab) -> None:
    table = lab.session().table("visits")
    assert table.where("ward = 'A'").count().quote(epsilon=0.1).regions == ("ward=A",)
    parts = table.partition("ward")
    some = parts.ask({name: parts[name].count() for name in ("A", "B")})
    assert some.quote(epsilon=0.1).regions == ("ward=A", "ward=B")
    regression = sf.learn.LinearRegression(epsilon=0.5)
    rows = table.where("ward = 'B'")
    lab.session().fit(regression, table=rows, features=["cost"], target="cost")
    assert left(lab) == dict(zip(EVERYONE, (1, 1, 0.5, 1), strict=True))


# ---- what is charged ---------------------------------------------------------------------------------------


def ask(lab: sf.Lab, where: str, epsilon: float) -> None:
    lab.session().sql(f"SELECT COUNT(*) AS n FROM visits WHERE {where}").release(epsilon=epsilon)


def test_each_region_has_the_whole_budget_over_time(lab: sf.Lab) -> None:
    for ward in "ABC":
        ask(lab, f"ward = '{ward}'", 0.9)
    ask(lab, "cost > 1", 0.1)
    assert left(lab) == dict(zip(EVERYONE, (0.9, 0, 0, 0), strict=True))
    with pytest.raises(BudgetError, match="SF-B101"):
        ask(lab, "cost > 2", 0.1)
    ask(lab, "ward IS NULL", 0.5)
    assert lab.budget.accounts[0].left_epsilon == 0  # as a question about everyone has it
    lab.ledger.verify()


def test_an_analyst_pays_from_one_quota(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=1)
    session = lab.session("ada")
    for ward in "AB":
        session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'").release(epsilon=0.5)
    with pytest.raises(BudgetError, match="SF-B102"):
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE ward = 'C'").release(epsilon=0.1)
    assert left(lab)["ward=A"] == left(lab)["ward=B"] == 0.5


def test_a_kept_answer_is_free_and_a_refined_one_is_charged_to_its_regions(lab: sf.Lab) -> None:
    query = lab.session().sql("SELECT COUNT(*) AS n FROM visits WHERE ward = 'A'")
    answer = query.release(epsilon=0.25)
    assert query.quote(epsilon=0.25).free
    assert query.release(epsilon=0.25).receipt.replayed
    answer.refine(epsilon=0.25)
    assert left(lab) == dict(zip(EVERYONE, (1, 0.5, 1, 1), strict=True))


def test_what_other_tools_release_is_charged_to_all(lab: sf.Lab) -> None:
    ask(lab, "ward = 'A'", 0.25)
    lab.charge(sf.privacy.Pure(Fraction(1, 2)), population="id", about="a run of another tool")
    assert left(lab) == dict(zip(EVERYONE, (0.5, 0.25, 0.5, 0.5), strict=True))


def test_side_delta_is_counted_by_region(lab: sf.Lab) -> None:
    known = "SELECT note, COUNT(*) AS n FROM visits WHERE ward = 'A' GROUP BY note"
    lab.session().sql(known).release(epsilon=0.5, delta=1e-7)
    spent = {name: lab.ledger.read_spent(name) for name in lab.ledger.list_accounts() if "where" in name}
    assert spent.pop("population:id where ward=A").side > 0
    assert set(spent.values()) == {NOTHING}


# ---- units that move ---------------------------------------------------------------------------------------


def test_after_an_advance_every_region_has_spent_as_much_as_the_one_that_spent_most(lab: sf.Lab) -> None:
    ask(lab, "ward = 'A'", 0.75)
    ask(lab, "ward = 'B'", 0.5)
    moved = VISITS.set_column(1, "ward", pa.array(["B", "B", "A", "C", "A", "A", "A"]))
    lab.advance("visits", moved)
    assert set(left(lab).values()) == {0.25}
    ask(lab, "ward = 'A'", 0.25)
    assert left(lab) == dict(zip(EVERYONE, (0.25, 0, 0.25, 0.25), strict=True))
    opened = sf.open(lab.folder)
    assert left(opened) == left(lab)
    assert trace_budget(lab.ledger, "population:id where ward=B")[-1].left_epsilon == 0.25


def test_another_table_may_advance_without_a_word(lab: sf.Lab) -> None:
    add_stays(lab)
    ask(lab, "ward = 'A'", 0.75)
    lab.advance("stays", STAYS)
    assert left(lab) == dict(zip(EVERYONE, (1, 0.25, 1, 1), strict=True))


def test_a_plan_for_the_regions_of_the_old_snapshot_is_not_charged(lab: sf.Lab) -> None:
    session = lab.session()
    query = session.sql("SELECT COUNT(*) AS n FROM visits WHERE ward = 'A'")
    plan = query.quote(epsilon=0.5).plan
    charge = session._payer.make_charge(plan, "old")
    lab.advance("visits", VISITS)
    # As from a process that has seen the new catalog between its plan and its charge.
    (read,) = charge.reads
    late = replace(charge, reads=(replace(read, begun=lab.table("visits").identity),))
    with pytest.raises(PolicyError, match="SF-L206"):
        lab.ledger.charge(late)
    assert set(left(lab).values()) == {1}


def test_a_crash_before_the_new_snapshot_is_used_leaves_no_region_out(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(lab, "ward = 'A'", 0.5)

    def crash(*_: object) -> None:
        raise RuntimeError("the power fails")

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "add_table", crash)
        with pytest.raises(RuntimeError):
            lab.advance("visits", VISITS)
    assert set(left(lab).values()) == {0.5}
    # The old snapshot can be asked, and nobody knows which region of the new one its units are in.
    assert charged(lab, "SELECT COUNT(*) AS n FROM visits WHERE ward = 'A'") == EVERYONE
    ask(lab, "ward = 'A'", 0.25)
    assert set(left(lab).values()) == {0.25}
    lab.advance("visits", VISITS)
    assert charged(lab, "SELECT COUNT(*) AS n FROM visits WHERE ward = 'A'") == ("ward=A",)


def test_a_population_that_has_spent_begins_its_regions_there(tmp_path: Path) -> None:
    lab = add_stays(make_lab(tmp_path, unit=sf.Unit("id", max_rows=2)))
    ask(lab, "ward = 'A'", 0.5)
    lab.drop("visits")
    lab.register("visits", VISITS, **SAID)
    assert set(left(lab).values()) == {0.5}
    ask(lab, "ward = 'A'", 0.5)
    # Without the table that divides them, all accounts go on being charged.
    lab.drop("visits")
    lab.session().sql("SELECT COUNT(*) AS n FROM stays WHERE nights > 10").quote(epsilon=0.25)
    with pytest.raises(BudgetError):
        lab.session().sql("SELECT COUNT(*) AS n FROM stays").release(epsilon=0.25)
    lab.register("visits", VISITS, **SAID)
    assert set(left(lab).values()) == {0}


def test_other_values_make_other_regions(lab: sf.Lab) -> None:
    ask(lab, "ward = 'A'", 0.5)
    columns = {**SAID["columns"], "ward": sf.one_of("A", "D", constant=True)}
    lab.advance("visits", VISITS, columns=columns)
    assert left(lab) == dict.fromkeys(("no region", "ward=A", "ward=D"), 0.5)
    lab.ledger.verify()


def test_rows_that_disagree_count_in_the_region_of_the_first(tmp_path: Path) -> None:
    """Whichever it is: asked of every ward, the person counts in one of them."""
    rows = pa.table(
        {"id": [1, 1, 1], "ward": ["A", "B", "C"], "sex": ["f"] * 3, "cost": [1.0] * 3, "note": ["x"] * 3}
    )
    lab = sf.create(tmp_path / "lab")
    lab.register("visits", rows, **{**SAID, "budget": sf.Budget(epsilon=1000)}, confirm_losses=True)
    found = [
        lab.session().sql(f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'").release(epsilon=900)
        for ward in "ABC"
    ]
    assert sorted(each.to_arrow()["n"].to_pylist()[0] for each in found) == [0, 0, 2]


# ---- declarations ------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "not declared": ("SF-C245", {"unit": sf.Unit("id", max_rows=2, regions=["cost", "no"])}),
    "numbers": ("SF-C245", {"unit": sf.Unit("id", max_rows=2, regions=["cost"])}),
    "not constant": ("SF-C245", {"columns": {"ward": sf.one_of("A", "B")}}),
    "too many": ("SF-C245", {"columns": {"ward": sf.one_of(*map(str, range(65)), constant=True)}}),
    "a colon": ("SF-C245", {"columns": {"ward": sf.one_of("A:B", "C", constant=True)}}),
    "long": ("SF-C245", {"columns": {"ward": sf.one_of("A" * 200, "C", constant=True)}}),
    "neighbours": ("SF-C126", {"neighbours": sf.REPLACE_ONE, "rows": 7}),
}


@pytest.mark.parametrize("name", WRONG)
def test_regions_that_could_not_be_counted_are_refused(tmp_path: Path, name: str) -> None:
    code, said = WRONG[name]
    lab = sf.create(tmp_path / "lab")
    with pytest.raises(UsageError, match=code):
        lab.register("visits", VISITS, **{**SAID, **said})
    assert lab.ledger.list_accounts() == ()


def test_regions_are_names_each_once() -> None:
    for wrong in ("ward", ["ward", "ward"], [1], None, [""]):
        with pytest.raises(UsageError, match="SF-C101"):
            sf.Unit("id", max_rows=2, regions=wrong)  # type: ignore[arg-type]


def test_one_table_says_which_region_a_unit_is_in(lab: sf.Lab) -> None:
    said = {**SAID, "budget": None}
    with pytest.raises(PolicyError, match="SF-C246"):
        lab.register("more", VISITS, **said)


def test_an_advance_keeps_the_regions_and_refuses_columns_without_them(lab: sf.Lab) -> None:
    with pytest.raises(UsageError, match="SF-C245"):
        lab.advance("visits", VISITS, columns={"cost": sf.between(0, 10)})
    lab.advance("visits", VISITS, max_rows=1)
    assert lab.table("visits").regions == ("ward",)


def test_a_schema_file_and_the_command_line_declare_regions(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    text = lab.draft_schema(VISITS, **SAID)
    assert 'regions = ["ward"]' in text
    (tmp_path / "visits.toml").write_text(text)
    lab.register("visits", VISITS, schema=tmp_path / "visits.toml")
    ask(lab, "ward = 'A'", 0.5)
    told = CliRunner().invoke(main, ["budget", "--lab", str(lab.folder), "--json"])
    regions = json.loads(told.stdout)["population:id"]["regions"]
    assert regions["ward=A"]["left_epsilon"] == 0.5
    import pyarrow.parquet as pq

    pq.write_table(VISITS, tmp_path / "visits.parquet")
    said = ["--unit", "id", "--max-rows", "1", "--region", "ward", "--one-of", "ward", "A,B,C"]
    where = ["table", "add", "other", str(tmp_path / "visits.parquet"), "--lab", str(tmp_path / "second")]
    sf.create(tmp_path / "second")
    done = CliRunner().invoke(main, [*where, *said, "--epsilon", "1"])
    assert done.exit_code == 0, done.output
    assert (
        "with a budget for each ward"
        in CliRunner().invoke(main, ["table", "show", "other", "--lab", str(tmp_path / "second")]).output
    )


def test_words_and_pages_show_what_is_left_of_each_region(lab: sf.Lab) -> None:
    ask(lab, "ward = 'A'", 0.5)
    assert "ward=A: ε = 0.50 of 1.00 remaining" in str(lab.budget)
    assert "ward=A: ε = 0.50 of 1.00 remaining" in lab.budget._repr_html_()
    quote = lab.session().sql("SELECT COUNT(*) AS n FROM visits WHERE ward = 'B'").quote(epsilon=0.5)
    assert "charged to ward=B" in str(quote)
    assert quote.to_dict()["regions"] == ["ward=B"]
    assert quote.left == 1


def test_the_verifier_of_exports_decides_regions_again(lab: sf.Lab) -> None:
    ask(lab, "ward = 'A'", 0.5)
    lab.advance("visits", VISITS)
    exported = io.StringIO()
    lab.ledger.export(exported)
    check = runpy.run_path(str(VERIFIER))["check_export"]
    lines = exported.getvalue().splitlines()
    assert check(iter(lines), [], None) == str(lab.ledger.verify())


def test_a_plan_adds_up_what_falls_on_the_same_region(lab: sf.Lab) -> None:
    """Two wards at ε = 0.6 fit in a budget of 1; the same ward twice, or everyone too, does not."""
    ask = "SELECT COUNT(*) AS n FROM visits WHERE ward = '{}' AND cost > {}"
    session = lab.session()
    apart = session.plan([ask.format("A", 1), ask.format("B", 1)], epsilon=0.6)
    assert apart.admitted
    assert apart.totals[0].left_after == pytest.approx(0.4)
    assert not session.plan([ask.format("A", 1), ask.format("A", 2)], epsilon=0.6).admitted
    assert not session.plan([ask.format("A", 1), "SELECT COUNT(*) AS n FROM visits"], epsilon=0.6).admitted
    repeated = session.plan([ask.format("A", 1)] * 3, epsilon=0.6)
    assert [each.free for each in repeated.questions] == [False, True, True]
    assert repeated.admitted
    lab.grant("ada", epsilon=1)
    # A quota is one account, whatever the region.
    assert not lab.session("ada").plan([ask.format("A", 1), ask.format("B", 1)], epsilon=0.6).admitted


def test_no_population_has_the_name_of_a_region(tmp_path: Path) -> None:
    unit = sf.Unit("id", max_rows=1, of="id where ward=A")
    with pytest.raises(UsageError, match="No population can be called 'id where ward=A'"):
        sf.create(tmp_path / "lab").register("t", pa.table({"id": [1]}), unit=unit, budget=sf.Budget(1))
