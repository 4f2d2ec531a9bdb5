"""`Marginals` on own frames and behind the curator: cells, prices, tables and refusals."""

from __future__ import annotations

import copy
import pickle
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.audit.replay import Playback, Recording
from sfumato.cli.main import main
from sfumato.errors import SfumatoError
from sfumato.noise.audit_hook import recording
from sfumato.privacy import rho_epsilon
from sfumato.synth.spending import Currency, Purse, read_amount, read_budget

BOUNDS: dict[str, Any] = {
    "age": sf.between(0, 99, step=1),
    "cost": sf.between(0, 1000),
    "ward": sf.one_of("A", "B", "C"),
    "ill": sf.one_of(False, True, missing=False),
    "day": sf.between(date(2020, 1, 1), date(2020, 12, 31)),
}
NAMES = list(BOUNDS)


def make_frame(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(5)
    age = random.integers(-5, 110, rows)
    return pa.table(
        {
            "age": pa.array(age, mask=random.random(rows) < 0.1),
            "cost": np.where(random.random(rows) < 0.1, np.nan, 10.0 * age + random.normal(0, 20, rows)),
            "ward": pa.array(random.choice(["A", "B", "C", "D"], rows)),
            "ill": pa.array(age > 50, mask=random.random(rows) < 0.1),
            "day": pa.array([date(2020, 1 + int(each) % 12, 5) for each in age]),
            "who": np.arange(rows) // 2,
        }
    )


def make_lab(folder: Path) -> sf.Lab:
    lab = sf.create(folder / "lab")
    lab.register(
        "visits", make_frame(), unit=sf.Unit("who", max_rows=2), columns=BOUNDS, budget=sf.Budget(50, 1e-6)
    )
    return lab


SPEND: dict[str, Any] = {"epsilon": 2, "delta": 1e-7}
KINDS: list[dict[str, Any]] = [
    {"bins": 8},
    {"bins": 8, "method": "mst"},
    {"bins": {"cost": "quantiles", "age": [18, 65], "day": 4}},
]


# ---- the table that is drawn -------------------------------------------------------------------------------


def test_a_table_has_the_declared_types_ranges_and_missing_values() -> None:
    fitted = sf.synth.Marginals(**SPEND, bounds=BOUNDS, bins=8).fit(make_frame(), columns=NAMES)
    drawn = fitted.sample(500, key="id", seed=1)
    kinds = [pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()]
    assert drawn.schema.types == kinds
    assert drawn.column_names == ["id", *NAMES]
    assert drawn["id"].to_pylist() == list(range(1, 501))
    found = drawn.to_pydict()
    assert all(each is None or 0 <= each <= 99 for each in found["age"])
    assert all(each is None or 0 <= each <= 1000 for each in found["cost"])
    assert set(found["ward"]) <= {"A", "B", "C", None}
    assert None not in found["ill"], "missing values were declared to count as false"
    assert all(each is None or date(2020, 1, 1) <= each <= date(2020, 12, 31) for each in found["day"])
    assert drawn.equals(fitted.sample(500, key="id", seed=1))


@pytest.mark.parametrize("method", ["aim", "mst"])
def test_with_little_noise_the_table_has_the_marginals_of_the_rows(method: str) -> None:
    random = np.random.default_rng(0)
    one = random.integers(0, 3, 20_000)
    rows = {
        "one": one,
        "two": (one + (random.random(20_000) < 0.2)) % 3,
        "three": random.integers(0, 4, 20_000),
    }
    bounds = {name: sf.one_of(0, 1, 2, 3, missing=0) for name in rows}
    drawn = sf.synth.Marginals(rho=50, method=method, bounds=bounds).fit(rows).sample(20_000, seed=0)
    found = np.array(drawn["one"]) * 4 + np.array(drawn["two"])
    real = rows["one"] * 4 + rows["two"]
    assert np.abs(np.bincount(found, minlength=16) - np.bincount(real, minlength=16)).sum() < 0.02 * 20_000


@pytest.mark.parametrize("method", ["aim", "mst"])
@pytest.mark.parametrize("rho", [500, 5000])
def test_with_hardly_any_noise_no_cell_is_lost(method: str, rho: int) -> None:
    """Steps as long as so little noise asks for emptied cells for good."""
    one = np.arange(2000) % 3
    rows = {"one": one, "two": (one + (np.arange(2000) % 10 < 2)) % 3}
    bounds = {name: sf.one_of(0, 1, 2, 3, missing=0) for name in rows}
    drawn = sf.synth.Marginals(rho=rho, method=method, bounds=bounds).fit(rows).sample(2000, seed=0)
    found, real = (np.array(each["one"]) * 4 + np.array(each["two"]) for each in (drawn, rows))
    assert np.abs(np.bincount(found, minlength=16) - np.bincount(real, minlength=16)).sum() < 40


def test_a_tree_of_pairs_has_a_quote_of_all_its_parts() -> None:
    bounds = {name: sf.one_of(1, 2, 3) for name in "abc"}
    parts = sf.synth.Marginals(rho=1, method="mst", bounds=bounds).quote().parts
    assert [name for name, _, _ in parts] == ["single columns", "choices", "pairs"]
    assert sum(share for _, share, _ in parts) == pytest.approx(1)


def test_a_hidden_xor_is_found_where_the_workload_asks_for_it() -> None:
    """Pairs show nothing of it: each two of the columns are independent."""
    random = np.random.default_rng(1)
    rows = {name: random.integers(0, 2, 20_000) for name in "abcdef"}
    rows["f"] = rows["a"] ^ rows["d"]
    bounds = {name: sf.one_of(0, 1, missing=0) for name in rows}
    found = {}
    for workload in (2, [("a", "d", "f"), ("b", "c", "e")]):
        made = sf.synth.Marginals(epsilon=1, delta=1e-9, workload=workload, bounds=bounds).fit(rows)
        drawn = {name: np.array(column) for name, column in made.sample(20_000, seed=0).to_pydict().items()}
        found[str(workload)] = float(np.mean((drawn["a"] ^ drawn["d"]) == drawn["f"]))
    pairs, triples = found.values()
    # Shares of fair coins lie within .03 of a half but once in 10^16 tables of so many rows.
    assert abs(pairs - 0.5) < 0.03
    assert triples > 0.9


# ---- prices ------------------------------------------------------------------------------------------------


def test_an_amount_is_what_epsilon_and_delta_allow() -> None:
    concentrated, amount = read_amount(read_budget({"epsilon": 1, "delta": 1e-9}))
    assert concentrated
    assert 0.999 < rho_epsilon(amount, 1e-9) <= 1
    assert read_amount(read_budget({"epsilon": 1})) == (False, Fraction(1))
    assert read_amount(read_budget({"rho": 0.25})) == (True, Fraction(1, 4))


@pytest.mark.parametrize(
    "currency", [Currency(True, 3), Currency(False, 3), Currency(True, 2, replaced=True)]
)
def test_noise_and_choices_cost_no_more_than_their_amount(currency: Currency) -> None:
    amount = Fraction(1, 7)
    noise = currency.make_noise(amount).event_for(currency.sensitivity)
    choice = currency.make_choice(amount, 5)
    quantiles = currency.make_quantiles(amount, (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)))
    rows = currency.rows * (2 if currency.replaced else 1)
    assert choice.sensitivity == 5 * rows
    for event in (noise, choice.event(), quantiles.event(rows)):
        assert Fraction(99, 100) * amount < currency.price(event) <= amount


def test_a_purse_pays_nothing_that_it_does_not_hold() -> None:
    purse = Purse(Currency(True), Fraction(1, 4))
    purse.pay(sf.privacy.Gaussian(2))
    purse.pay(sf.privacy.Gaussian(2))
    with pytest.raises(AssertionError):
        purse.pay(sf.privacy.Gaussian(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spend", [SPEND, {"epsilon": 2}, {"rho": 0.1}])
def test_all_uses_together_cost_what_was_asked_and_hardly_less(kind: Any, spend: Any) -> None:
    record = Recording()
    with recording(record):
        sf.synth.Marginals(**spend, **kind, bounds=BOUNDS).fit(make_frame(), columns=NAMES)
    concentrated, amount = read_amount(read_budget(spend))
    currency = Currency(concentrated)
    events = [
        each.mechanism.event_for(currency.sensitivity)
        if hasattr(each.mechanism, "event_for")
        else each.mechanism.event()
        for each in record.calls
    ]
    spent = sum(map(currency.price, events))
    assert Fraction(999, 1000) * amount < spent <= amount


@pytest.mark.parametrize("kind", [*KINDS, {"workload": 1, "bins": 4}])
@pytest.mark.parametrize("spend", [SPEND, {"epsilon": 2}])
def test_a_quote_shows_how_the_budget_is_divided(tmp_path: Path, kind: Any, spend: Any) -> None:
    own = sf.synth.Marginals(**spend, **kind, bounds=BOUNDS).quote()
    assert sum(share for _, share, _ in own.parts) == pytest.approx(1)
    assert ("bins at quantiles" in str(own)) == isinstance(kind["bins"], dict)
    lab = make_lab(tmp_path)
    asked = {"table": "visits", "columns": NAMES}
    held = lab.session().quote(sf.synth.Marginals(**spend, **kind), **asked)
    assert held == own
    assert lab.session().quote(sf.synth.Marginals(**spend, **kind), rows_per_unit=2, **asked) != own


# ---- behind the curator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_counts_what_own_frames_count(tmp_path: Path, kind: Any) -> None:
    """The table gets the answers of the frame, and must have been asked about the same integers."""
    frame, record = make_frame(), Recording()
    lab = sf.create(tmp_path / "lab")
    lab.register("visits", frame, unit=sf.ROW, columns=BOUNDS, budget=sf.Budget(50, 1e-6))
    with recording(record):
        own = sf.synth.Marginals(**SPEND, **kind, bounds=BOUNDS).fit(frame, columns=NAMES)
    again = Playback(record)
    with recording(again):
        held = lab.session().fit(sf.synth.Marginals(**SPEND, **kind), table="visits", columns=NAMES)
    assert len(again.calls) == len(record.calls)
    for one, other in zip(record.calls, again.calls, strict=True):
        assert np.array_equal(_plain(one.exact), _plain(other.exact))
    assert held.sample(50, seed=3).equals(own.sample(50, seed=3))


def _plain(exact: Any) -> Any:
    return exact.counts(0, 1) if hasattr(exact, "cell_at_rank") else exact


def test_a_fit_is_charged_first_and_once(tmp_path: Path) -> None:
    session = make_lab(tmp_path).session()
    before = str(session.budget)
    fitted = session.fit(sf.synth.Marginals(**SPEND, bins=8), table="visits", columns=NAMES)
    after = str(session.budget)
    assert after != before
    again = session.fit(sf.synth.Marginals(**SPEND, bins=8), table="visits", columns=NAMES)
    assert str(session.budget) == after, "the same is answered again for nothing"
    assert again.sample(20, seed=0).equals(fitted.sample(20, seed=0))
    assert "one who" in str(fitted)


def test_more_rows_of_a_unit_mean_more_noise(tmp_path: Path) -> None:
    session = make_lab(tmp_path).session()
    one, two = (
        session.fit(
            sf.synth.Marginals(**SPEND, bins=8), table="visits", columns=["age", "ward"], rows_per_unit=rows
        )
        for rows in (1, 2)
    )
    noise = [each.released.measured[0].deviation for each in (one, two)]
    assert noise[1] == pytest.approx(2 * noise[0], rel=0.01)
    assert "up to 2 rows" in str(two.guarantee_)


# ---- refusals ----------------------------------------------------------------------------------------------

LONG = sf.one_of(*range(3000))
REFUSED: list[tuple[dict[str, Any], list[str], str]] = [
    ({"bounds": {}}, ["age"], "SF-E101"),
    ({"bounds": {"age": sf.text()}}, ["age"], "SF-E101"),
    ({"bins": "often"}, ["age"], "SF-E110"),
    ({"bins": 5000}, ["age"], "SF-E230"),
    ({"bounds": {"age": LONG}}, ["age"], "SF-E230"),
    ({"workload": "all"}, ["age", "ward"], "SF-E110"),
    ({"workload": [("age", "pulse")]}, ["age", "ward"], "SF-E110"),
    ({"method": "gan"}, ["age"], "SF-E187"),
    ({}, [], "SF-E110"),
    ({}, ["age", "age"], "SF-E110"),
    ({}, ["pulse"], "SF-E110"),
    ({"epsilon": None, "delta": None}, ["age"], "SF-N109"),
]


@pytest.mark.parametrize(("given", "columns", "code"), REFUSED)
def test_what_cannot_be_done_is_refused_before_the_charge(
    tmp_path: Path, given: dict[str, Any], columns: list[str], code: str
) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=5, delta=1e-6)
    with pytest.raises(SfumatoError) as problem:
        sf.synth.Marginals(**{**SPEND, "bounds": BOUNDS, **given}, budget=account).fit(
            make_frame(), columns=columns
        )
    assert problem.value.code == code
    assert account.left == 5


def test_free_text_is_refused_before_the_charge(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"ward": sf.text()}
    lab.register("visits", make_frame(), unit=sf.ROW, columns=columns, budget=sf.Budget(5, 1e-6))
    session = lab.session()
    before = str(session.budget)
    with pytest.raises(SfumatoError) as problem:
        session.fit(sf.synth.Marginals(**SPEND), table="visits", columns=["ward"])
    assert problem.value.code == "SF-E101"
    assert str(session.budget) == before


def test_wide_workloads_are_refused() -> None:
    bounds = {f"x{at}": sf.one_of(0, 1) for at in range(120)}
    with pytest.raises(SfumatoError) as problem:
        sf.synth.Marginals(**SPEND, bounds=bounds, workload=3).fit({name: np.zeros(3) for name in bounds})
    assert problem.value.code == "SF-E230"


def test_drawing_comes_after_fitting() -> None:
    with pytest.raises(SfumatoError) as problem:
        sf.synth.Marginals(epsilon=1).sample(5)
    assert problem.value.code == "SF-N606"


def test_what_is_missing_among_the_results_is_said() -> None:
    fitted = sf.synth.Marginals(**SPEND, bounds=BOUNDS).fit(make_frame(), columns=["ward"])
    for ask, code in ((lambda: fitted.sample(3, key="ward"), "SF-E110"),):
        with pytest.raises(SfumatoError) as problem:
            ask()
        assert problem.value.code == code


def test_fits_without_an_account_are_counted_with_those_of_copies() -> None:
    made = sf.synth.Marginals(**SPEND, bounds={"ward": BOUNDS["ward"]})
    frame = {"ward": ["A", "B"]}
    assert not made.fit(frame).guarantee_.others
    assert "2 fits" in copy.deepcopy(made).fit(frame).guarantee_.others
    with pytest.raises(SfumatoError, match="SF-L303"):
        pickle.loads(pickle.dumps(made)).fit(frame)


def test_no_rows_are_no_error() -> None:
    """That there are none is as private as any row."""
    frame = make_frame().slice(0, 0)
    fitted = sf.synth.Marginals(**SPEND, bounds=BOUNDS, bins=8).fit(frame, columns=NAMES)
    assert fitted.sample(10).num_rows == 10


# ---- stand-ins ---------------------------------------------------------------------------------------------


def test_a_twin_has_the_declared_columns_and_costs_nothing(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {**BOUNDS, "note": sf.text()}
    frame = make_frame().append_column("note", pa.array(["secret"] * 400))
    unit = sf.Unit("who", max_rows=2)
    lab.register("visits", frame, unit=unit, columns=columns, budget=sf.Budget(5, 1e-6))
    session = lab.session()
    before = str(session.budget)
    twin = session.twin("visits", 200, seed=3)
    assert str(session.budget) == before
    assert twin.equals(session.twin("visits", 200, seed=3))
    assert set(twin.column_names) == {"who", *columns}
    found = twin.to_pydict()
    assert max(found["who"].count(each) for each in found["who"]) == 2
    assert {each for each in found["ward"] if each} == {"A", "B", "C"}
    assert None in found["age"]
    assert None not in found["ill"]
    assert "secret" not in found["note"]
    again = sf.create(tmp_path / "rehearsal")
    again.register("visits", twin, unit=unit, columns=columns, budget=sf.Budget(5, 1e-6))
    fitted = again.session().fit(sf.synth.Marginals(**SPEND, bins=4), table="visits", columns=NAMES)
    assert fitted.sample(5).num_rows == 5


def test_the_command_quotes_and_then_writes_a_table(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    given = ["synth", "visits", "--lab", str(lab.folder), "--columns", "ward, ill", "--epsilon", "1"]
    quoted = CliRunner().invoke(main, [*given, "--json"])
    assert quoted.exit_code == 0, quoted.output
    assert '"single columns"' in quoted.output
    wrong = CliRunner().invoke(main, [*given, "--output", str(tmp_path / "none" / "drawn.csv")])
    assert (wrong.exit_code, "SF-U102" in wrong.output) == (2, True)
    target = tmp_path / "drawn.csv"
    done = CliRunner().invoke(main, [*given, "--rows", "7", "--output", str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_text().splitlines()[0] == '"ward","ill"'
    assert len(target.read_text().splitlines()) == 8
