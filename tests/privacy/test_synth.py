"""Synthesis replayed on two tables that differ by one person, and mistakes that must be caught."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.synth.spending import Currency, read_amount, read_budget

BOUNDS: dict[str, Any] = {
    "a": sf.between(-3, 5),
    "b": sf.between(0, 1000),
    "c": sf.one_of("p", "q", "r"),
    "d": sf.one_of(0, 1),
}
NAMES = list(BOUNDS)
HUGE = 1e9
KINDS: list[dict[str, Any]] = [
    {"epsilon": 3, "delta": 1e-7, "bins": 6},
    {"epsilon": 3, "bins": 6, "workload": 2},
    {"rho": 0.5, "bins": 6, "method": "mst"},
    {"rho": 0.5, "bins": ("quantiles", 5)},
]


def make_rows() -> pa.Table:
    """The first person has many rows, all far outside the bounds; the seventh is like others."""
    random = np.random.default_rng(1)
    who = np.concatenate([np.zeros(6, dtype=int), random.integers(1, 40, 90)])
    far = who == 0
    return pa.table(
        {
            "who": who,
            "a": np.where(far, HUGE, random.normal(1, 2, 96)),
            "b": np.where(far, np.nan, random.uniform(0, 1100, 96)),
            "c": np.where(far, "q", random.choice(["p", "q", "r", "s"], 96)),
            "d": random.integers(0, 2, 96),
        }
    )


def claim_of(kind: dict[str, Any]) -> Any:
    named = ("epsilon", "delta", "rho")
    concentrated, amount = read_amount(read_budget({name: kind.get(name) for name in named}))
    return Currency(concentrated).make_event(amount)


def pairs() -> list[tuple[pa.Table, pa.Table]]:
    rows = make_rows().drop_columns("who")
    return [
        (rows, rows.slice(1)),
        (rows.slice(0, 90), rows.slice(0, 89)),
        (rows.slice(0, 1), rows.slice(0, 0)),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_own_frames_keep_their_claim(kind: dict[str, Any]) -> None:
    def run(frame: pa.Table) -> Any:
        return sf.synth.Marginals(**kind, bounds=BOUNDS).fit(frame).sample(30, seed=0).to_pydict()

    found = audit.replay(run, pairs(), claim=claim_of(kind))
    assert not found.violates, found
    assert found.reached == 1, "one row moves a marginal by all that it is priced for"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A lab with two pairs of neighbours. No table is asked the same twice: that is free."""
    full = make_rows()
    lab = sf.create(tmp_path_factory.mktemp("synth") / "lab")
    unit, budget = sf.Unit("who", max_rows=4), sf.Budget(epsilon=1000, delta=1e-6)
    for person in (0, 7):
        rest = full.filter(pc.not_equal(full["who"], person))
        lab.register(f"with{person}", full, unit=unit, columns=BOUNDS, budget=budget)
        lab.register(f"without{person}", rest, unit=unit, columns=BOUNDS)
    alone = full.filter(pc.equal(full["who"], 0))
    lab.register("alone", alone, unit=unit, columns=BOUNDS)
    lab.register("nobody", alone.slice(0, 0), unit=unit, columns=BOUNDS)
    return lab.session()


@pytest.mark.parametrize(("kind", "each"), [(kind, 1 + 3 * (at % 2)) for at, kind in enumerate(KINDS)])
def test_tables_keep_their_claim(session: Any, kind: dict[str, Any], each: int) -> None:
    def run(table: str) -> Any:
        made = sf.synth.Marginals(**kind)
        fitted = session.fit(made, table=table, columns=NAMES, rows_per_unit=each)
        return fitted.sample(30, seed=0).to_pydict()

    tables = [("with0", "without0"), ("with7", "without7"), ("alone", "nobody")]
    found = audit.replay(run, tables, claim=claim_of(kind))
    assert not found.violates, found
    assert found.reached == 1


REFUSED: list[dict[str, Any]] = [
    {"epsilon": 1e-6, "delta": 1e-12},
    {"rho": 1e-30},
    {"epsilon": 1e-20},
    {"rho": 0.1, "max_cells": 1},
]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_drawn_is_refused_before_the_charge(session: Any, kind: dict[str, Any]) -> None:
    before = str(session.budget)
    with pytest.raises(sf.errors.UsageError):
        session.fit(sf.synth.Marginals(**kind), table="with0", columns=NAMES)
    assert str(session.budget) == before


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ({"rho": 0.5, "method": "mst"}, ["c"]),
        ({"rho": 0.5, "bins": 256, "max_cells": 2**17}, ["a", "b"]),
        ({"rho": 1e5}, ["c", "d"]),
    ],
)
def test_unusual_sizes_and_amounts_are_answered(kind: dict[str, Any], names: list[str]) -> None:
    made = sf.synth.Marginals(**kind, bounds=BOUNDS).fit(make_rows().drop_columns("who"), names)
    assert made.sample(5, seed=0).column_names == names


def test_the_noise_of_a_replaced_row_costs_no_more_than_its_amount() -> None:
    for amount in (Fraction(1), Fraction(1, 4), Fraction(3, 10)):
        currency = Currency(concentrated=True, replaced=True)
        assert currency.price(currency.make_noise(amount).event_for(currency.sensitivity)) <= amount


def test_values_taken_from_the_rows_are_caught() -> None:
    def run(frame: pa.Table) -> Any:
        seen = {**BOUNDS, "c": sf.one_of(*sorted(set(frame["c"].to_pylist())))}
        return sf.synth.Marginals(**KINDS[0], bounds=seen).fit(frame).sample(30, seed=0).to_pydict()

    rows = make_rows().drop_columns("who")
    alone = rows.slice(10).filter(pc.not_equal(rows.slice(10)["c"], "s"))
    one = rows.slice(10).filter(pc.equal(rows.slice(10)["c"], "s")).slice(0, 1)
    assert audit.replay(run, [(pa.concat_tables([alone, one]), alone)], claim=claim_of(KINDS[0])).violates


def test_bins_taken_from_the_rows_are_caught() -> None:
    def run(frame: pa.Table) -> Any:
        cuts = sorted({float(each) for each in np.nanquantile(np.array(frame["b"]), [0.25, 0.5, 0.75])})
        made = sf.synth.Marginals(**{**KINDS[0], "bins": {"a": 6, "b": cuts}}, bounds=BOUNDS)
        return made.fit(frame).sample(30, seed=0).to_pydict()

    rows = make_rows().drop_columns("who").slice(10)
    assert audit.replay(run, [(rows, rows.slice(1))], claim=claim_of(KINDS[0])).violates


@pytest.mark.parametrize("forgotten", ["rows", "weight"])
def test_a_sensitivity_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    """Rows of a unit that are not counted, and a choice that forgets the weights of its scores."""
    kind, made = KINDS[0], Currency.make_choice
    if forgotten == "weight":
        monkeypatch.setattr(Currency, "make_choice", lambda self, amount, weight: made(self, amount, 1))
    frames = pairs()
    if forgotten == "rows":
        frames = [(frames[0][0], frames[0][0].slice(3))]

    def run(frame: pa.Table) -> Any:
        return sf.synth.Marginals(**kind, bounds=BOUNDS).fit(frame).sample(30, seed=0).to_pydict()

    assert audit.replay(run, frames, claim=claim_of(kind)).violates
