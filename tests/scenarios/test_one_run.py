"""Runs that are charged as one (ε, δ): where the account does not admit their curve, and only there."""

from __future__ import annotations

import io
import json
import runpy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato as sf  # noqa: E402
from sfumato.errors import BudgetError, SfumatoError  # noqa: E402
from sfumato.ledger import failpoints  # noqa: E402
from sfumato.privacy.account import NOTHING, SIDE, Cost, price  # noqa: E402
from sfumato.privacy.events import PrivacyProfile  # noqa: E402

VERIFIER = Path(__file__).parents[2] / "tools" / "verify_ledger.py"
check_export = runpy.run_path(str(VERIFIER))["check_export"]
ROWS = 400
ASKED: dict[str, Any] = {"table": "t", "features": ["x"], "target": "kind"}
SIDE_ALONE = sf.Budget(1, 1e-6, side_share=1)


def make_lab(folder: Path, budget: sf.Budget) -> sf.Lab:
    x = np.linspace(-1, 1, ROWS)
    made = sf.create(folder / "lab")
    table = pa.table({"x": x, "kind": np.where(x > 0, "yes", "no")})
    columns: dict[str, Any] = {"x": sf.between(-1, 1), "kind": sf.one_of("no", "yes")}
    made.register("t", table, unit=sf.ROW, columns=columns, budget=budget)
    return made


def make_trainer(**settings: Any) -> sf.deep.Trainer:
    torch.manual_seed(5)
    chosen = {"epsilon": 1, "delta": 1e-6, "steps": 3, "batch_size": 40, "rows": ROWS, **settings}
    return sf.deep.Trainer(nn.Linear(1, 2), nn.CrossEntropyLoss(), **chosen)


def read_charges(lab: sf.Lab) -> list[dict[str, Any]]:
    entries = lab.ledger.read_entries()
    return [json.loads(entry.body) for entry in entries if entry.kind in ("charge", "reserve")]


def find_spent(lab: sf.Lab) -> Cost:
    return lab.ledger.read_spent("population:t")


def test_dp_sgd_fits_into_an_account_whose_delta_is_for_side_delta(tmp_path: Path) -> None:
    """120 steps at rate 0.01 and (1, 10⁻⁶) with noise of one clipping norm; the curve needs a third more."""
    lab = make_lab(tmp_path, SIDE_ALONE)
    asked = make_trainer(steps=120, batch_size=4)
    quoted = lab.session().quote(asked, **ASKED)
    assert quoted.as_one
    assert quoted.admitted
    assert quoted.charged == 1
    assert quoted.multiplier <= 1.0005
    assert read_charges(lab) == []
    found = lab.session().fit(asked, **ASKED)
    assert found.multiplier_ == quoted.multiplier
    assert found.guarantee_.in_an_account == 1
    (charge,) = read_charges(lab)
    claim = sf.privacy.from_dict(charge["about"]["event"])
    assert isinstance(claim, PrivacyProfile)
    assert price(claim) == find_spent(lab)
    assert claim.pure() == 1
    assert 0 <= Fraction(1, 10**6) - claim.side_delta() < Fraction(1, SIDE)
    # The same again is the kept answer, and anything else finds nothing left.
    assert lab.session().quote(make_trainer(steps=120, batch_size=4), **ASKED).free
    with pytest.raises(BudgetError):
        lab.session().sql("SELECT COUNT(*) AS n FROM t").release(epsilon=0.001)
    assert len(read_charges(lab)) == 1


def test_a_run_whose_curve_is_admitted_is_charged_by_its_curve(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, sf.Budget(1, 1e-6))
    assert not lab.session().quote(make_trainer(), **ASKED).as_one
    found = lab.session().fit(make_trainer(epsilon=0.5, delta=2e-7), **ASKED)
    assert find_spent(lab) == price(found.event_)


def test_the_quote_says_that_a_run_is_one(tmp_path: Path) -> None:
    quoted = make_lab(tmp_path, SIDE_ALONE).session().quote(make_trainer(), **ASKED)
    assert "as one run" in str(quoted)


def test_more_stretches_than_a_ledger_counts_cost_nothing(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, SIDE_ALONE)
    asked = make_trainer(steps=1, checkpoint=tmp_path / "run", resumes=10**9)
    with pytest.raises(SfumatoError, match="SF-L302"):
        lab.session().fit(asked, **ASKED)
    assert read_charges(lab) == []


def test_one_run_is_charged_once_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(tmp_path, SIDE_ALONE)
    reached = [0]

    def stop(step: str) -> None:
        reached[0] += step == "checkpoint:durable"
        if reached[0] == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run.pt"
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reach", stop)
        with pytest.raises(KeyboardInterrupt):
            lab.session().fit(make_trainer(steps=6, checkpoint=path), **ASKED)
    whole, counted = read_charges(lab)
    assert Cost.from_dict(whole["cost"]) == find_spent(lab)
    # The stretches are counted and cost nothing, so nothing of the price can be given back.
    assert Cost.from_dict(counted["cost"]) == NOTHING
    lab = sf.open(tmp_path / "lab")
    begun = lab.session().quote(make_trainer(steps=6, checkpoint=path), **ASKED)
    # Nothing is left for another such run, and this one is paid for.
    assert begun.paid
    assert begun.admitted
    assert not begun.free
    assert "nothing more: the run is paid for" in str(begun)
    assert "refused" not in str(begun)
    assert not lab.session().quote(make_trainer(steps=5, checkpoint=tmp_path / "other.pt"), **ASKED).paid
    found = lab.session().fit(make_trainer(steps=6, checkpoint=path), **ASKED)
    assert found.steps_ == 6
    assert len(read_charges(lab)) == 2
    assert Cost.from_dict(whole["cost"]) == find_spent(lab)
    assert lab.session().quote(make_trainer(steps=6, checkpoint=path), **ASKED).free
    exported = io.StringIO()
    lab.ledger.export(exported)
    chain = [line for line in exported.getvalue().splitlines() if '"signature"' not in line]
    assert check_export(chain, [], None) == str(lab.ledger.verify())


def test_whoever_else_begins_the_same_run_pays_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stretches of one payer are not steps for another: their noise is drawn anew."""
    lab = make_lab(tmp_path, sf.Budget(2, 2e-6, side_share=1))
    for name in ("ada", "bob"):
        lab.grant(name, epsilon=1, delta=2e-6)

    def stop(step: str) -> None:
        if step == "noise:drawn":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "reach", stop)
        with pytest.raises(KeyboardInterrupt):
            lab.session("ada").fit(make_trainer(steps=6, checkpoint=tmp_path / "ada.pt"), **ASKED)
    once = find_spent(lab)
    assert once.pure == 10**12
    quotes = [
        lab.session(name).quote(make_trainer(steps=6, checkpoint=tmp_path / f"{name}.pt"), **ASKED)
        for name in ("ada", "bob")
    ]
    assert [each.paid for each in quotes] == [True, False]
    lab.session("bob").fit(make_trainer(steps=6, checkpoint=tmp_path / "bob.pt"), **ASKED)
    assert find_spent(lab) == once * 2


def test_an_account_for_arrays_is_charged_as_one_run_too(tmp_path: Path) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=1, delta=1e-6, side_share=1)
    x = torch.linspace(-1, 1, ROWS).reshape(ROWS, 1)
    data = (x, (x[:, 0] > 0).long())
    found = make_trainer(budget=account).fit(data)
    assert found.guarantee_.as_one
    assert account.left == 0
    with pytest.raises(SfumatoError, match="neighbour"):
        make_trainer(budget=account, sampling="fixed").fit(data)


@pytest.mark.slow
def test_a_diffusion_model_is_charged_as_one_run_too(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, sf.Budget(8, 1e-5, side_share=1))
    settings = {"steps": 4, "warm_steps": 4, "width": 8, "draws": 1, "batch_size": 40, "rows": ROWS}
    asked = sf.synth.Diffusion(epsilon=8, delta=1e-5, **settings)
    quoted = lab.session().quote(asked, **ASKED)
    assert quoted.as_one
    lab.session().fit(asked, **ASKED)
    assert find_spent(lab).pure == 8 * 10**12
