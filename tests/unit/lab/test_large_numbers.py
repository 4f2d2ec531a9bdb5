"""Numbers that promise almost no privacy are warned about when they are typed, and usual ones are not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import PrivacyWarning, StewardWarning

ROWS = pa.table({"age": list(range(100)), "ward": ["A", "B"] * 50})
COUNT = "SELECT COUNT(*) AS n FROM people"


def make_lab(folder: Path, budget: sf.Budget) -> sf.Lab:
    lab = sf.create(folder / "lab")
    columns = {"age": sf.between(0, 110), "ward": sf.one_of("A", "B")}
    lab.register("people", ROWS, unit=sf.ROW, columns=columns, budget=budget)
    return lab


def warned(act: Any) -> list[str]:
    """The warnings of ours that a call gives, each attributed to the line that made the call."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act()
    assert all(each.filename == __file__ for each in told)
    return [str(each.message) for each in told if issubclass(each.category, PrivacyWarning | StewardWarning)]


@pytest.mark.parametrize(
    ("epsilon", "delta", "says"),
    [
        (1000, 0.5, ["practically always", "fail altogether with a probability of 0.5"]),
        (20.1, 0, ["ε = 20.1 promises almost no privacy"]),
        (1, 0.002, ["fail altogether with a probability of 0.002"]),
    ],
)
def test_a_large_budget_is_warned_about(epsilon: float, delta: float, says: list[str]) -> None:
    (text,) = warned(lambda: sf.Budget(epsilon, delta))
    assert all(part in text for part in says)


@pytest.mark.parametrize(("epsilon", "delta"), [(20, 0), (4, 1e-7), (10, 1e-5), (1, 0.001), (14, 0)])
def test_usual_budgets_are_not(epsilon: float, delta: float) -> None:
    assert warned(lambda: sf.Budget(epsilon, delta)) == []


def test_a_large_budget_is_warned_about_once_and_where_it_was_typed(tmp_path: Path) -> None:
    def work() -> None:
        lab = make_lab(tmp_path, sf.Budget.of(1000))
        session = lab.session()
        session.sql(COUNT).quote(share=0.001)
        print(lab.budget, sf.open(lab.folder).budget)

    assert warned(work) == []


@pytest.mark.parametrize("spend", [{"epsilon": 50}, {"epsilon": 10.01}, {"rho": 200}, {"risk": 0.99999}])
def test_a_query_for_a_large_price_is_warned_about(tmp_path: Path, spend: dict[str, float]) -> None:
    query = make_lab(tmp_path, sf.Budget.of(1000, 1e-6)).session().sql(COUNT)
    quotes: list[Any] = []
    (quoted,) = warned(lambda: quotes.append(query.quote(**spend)))
    assert "promises almost no privacy" in quoted
    assert quoted in str(quotes[0])
    assert quotes[0].to_dict()["warning"] == quoted
    assert warned(lambda: query.release(**spend)) == [quoted]
    assert warned(lambda: quotes.append(query.quote(**spend))) == []
    assert "free" in str(quotes[-1])


@pytest.mark.parametrize(
    "spend", [{"epsilon": 10}, {"epsilon": 0.1}, {"rho": 0.5}, {"share": 0.02}, {"risk": 0.6}]
)
def test_usual_queries_are_not(tmp_path: Path, spend: dict[str, float]) -> None:
    query = make_lab(tmp_path, sf.Budget(20, 1e-6)).session().sql(COUNT)
    quotes: list[Any] = []
    assert warned(lambda: quotes.append(query.quote(**spend))) == []
    assert "warning" not in quotes[0].to_dict()
    assert warned(lambda: query.release(**spend)) == []


def test_a_quota_above_the_budget_is_warned_about(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, sf.Budget(20, 1e-6))
    text = "The quota of 'ada' on people is ε = 200, but the whole budget is ε = 20."
    assert warned(lambda: lab.grant("ada", epsilon=200, delta=1e-7)) == [text]
    (ada,) = lab.analysts()
    assert ada.to_dict()["warnings"] == [text]
    assert text in str(ada)
    both = (
        "The quota of 'ada' on people is ε = 21 and δ = 1e-05, but the whole budget is ε = 20 and δ = 1e-06."
    )
    assert warned(lambda: lab.grant("ada", epsilon=21, delta=1e-5)) == [both]
    assert warned(lambda: lab.grant("ada", epsilon=20, delta=1e-6)) == []
    assert lab.analysts()[0].warnings == ()


@pytest.mark.filterwarnings("default")
def test_the_shell_prints_warnings_as_sentences(tmp_path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(ROWS, tmp_path / "rows.parquet")
    folder = str(sf.create(tmp_path / "lab").folder)
    declared = ["--row", "--whole", "age", "0", "110", "--epsilon", "1000", "--lab", folder]
    added = CliRunner().invoke(main, ["table", "add", "people", str(tmp_path / "rows.parquet"), *declared])
    assert added.exit_code == 0, added.output
    assert "A budget of ε = 1,000 promises almost no privacy" in added.stderr
    granted = CliRunner().invoke(main, ["user", "grant", "ada", "--epsilon", "2000", "--lab", folder])
    assert "is ε = 2,000, but the whole budget is ε = 1,000" in granted.stderr
    asked = CliRunner().invoke(main, ["ask", COUNT, "--lab", folder, "--as", "ada", "--epsilon", "50"])
    assert asked.exit_code == 0, asked.output
    assert "A query of ε = 50 promises almost no privacy" in asked.stderr
    assert "PrivacyWarning" not in f"{added.stderr}{asked.stderr}{granted.stderr}"
