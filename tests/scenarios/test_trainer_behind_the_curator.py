"""Modules trained behind the curator: one charge before any row is read, and one answer."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato as sf  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.batches import PoissonBatches  # noqa: E402
from sfumato.deep.tables import fit as tables  # noqa: E402
from sfumato.errors import BudgetError, PolicyError, SealedError, SfumatoError, UsageError  # noqa: E402
from sfumato.privacy.account import caps, price  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

ROWS = 400
FEATURES = ["x0", "x1", "ward"]
LOSS = nn.CrossEntropyLoss()
COLUMNS: dict[str, Any] = {
    "x0": sf.between(-1, 1),
    "x1": sf.between(0, 50),
    "ward": sf.one_of("A", "B"),
    "kind": sf.one_of("no", "yes"),
    "y": sf.between(-4, 6),
    "note": sf.text(),
}
BUDGET = sf.Budget(epsilon=100, delta=1e-5)


def source(rows: int = ROWS) -> pa.Table:
    """Some numbers lie outside their bounds, and some of everything is missing."""
    rng = np.random.default_rng(3)
    x, missing = rng.normal(0, 0.5, rows), np.arange(rows) % 40
    columns = {
        "who": np.arange(rows) // 2,
        "x0": pa.array(x, mask=missing == 1),
        "x1": pa.array(25 + 20 * rng.normal(size=rows), mask=missing == 2),
        "ward": pa.array(rng.choice(["A", "B", "C"], rows), mask=missing == 3),
        "kind": pa.array(np.where(x > 0, "yes", "no"), mask=missing == 4),
        "y": pa.array(1 + 4 * x, mask=missing == 5),
        "note": pa.array(["free"] * rows),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    made = sf.create(tmp_path_factory.mktemp("shared") / "lab")
    made.register("t", source(), unit=sf.ROW, columns=COLUMNS, budget=sf.Budget(10**5, 1e-5))
    return made


@pytest.fixture
def lab(shared: sf.Lab) -> sf.Lab:
    BEFORE[shared.folder] = sum(1 for _ in shared.ledger.read_entries())
    return shared


BEFORE: dict[Path, int] = {}
"""Entries that a lab had before the test."""


def trainer(module: nn.Module | None = None, loss: Any = LOSS, **settings: Any) -> sf.deep.Trainer:
    chosen = {"epsilon": 8, "delta": 1e-6, "steps": 3, "batch_size": 40, "rows": ROWS, **settings}
    return sf.deep.Trainer(nn.Linear(4, 2) if module is None else module, loss, **chosen)


def fitted(lab: sf.Lab, asked: sf.deep.Trainer, **more: Any) -> sf.deep.Trainer:
    given: dict[str, Any] = {"table": "t", "features": FEATURES, "target": "kind"} | more
    return lab.session().fit(asked, **given)


def kinds(lab: sf.Lab) -> list[str]:
    entries = list(lab.ledger.read_entries())[BEFORE.get(lab.folder, 0) :]
    return [entry.kind for entry in entries if entry.kind in ("charge", "release")]


# ---- what comes back ---------------------------------------------------------------------------------------


def test_a_module_learns_for_one_charge(lab: sf.Lab) -> None:
    asked = trainer(steps=60, epsilon=60)
    quoted = lab.session().quote(asked, table="t", features=FEATURES, target="kind")
    assert kinds(lab) == []
    found = fitted(lab, asked)
    assert kinds(lab) == ["charge", "release"]
    rows = source().to_pandas()
    right = found.module(found.encode(rows)).argmax(1).numpy() == (rows["kind"] == "yes")
    assert right[rows["kind"].notna()].mean() > 0.7  # 0.935 ± 0.019 in 150 runs
    assert quoted.multiplier == found.multiplier_
    assert quoted.admitted
    charge = [json.loads(entry.body) for entry in lab.ledger.read_entries() if entry.kind == "charge"][-1]
    event = sf.privacy.from_dict(charge["about"]["event"])
    assert price(event).to_dict() == charge["cost"]
    assert event == sf.privacy.Sequential([found.event_])


def test_noise_meets_what_the_ledger_charges(lab: sf.Lab) -> None:
    """An account of exactly (ε, δ) holds the run, one of less does not, and both figures are told."""
    asked = trainer()
    quoted = lab.session().quote(asked, table="t", features=FEATURES, target="kind")
    cost = price(quoted.guarantee.event)
    assert caps(sf.Budget(8, 1e-6)).holds(cost)
    assert not caps(sf.Budget(7.99, 1e-6)).holds(cost)
    assert quoted.charged == pytest.approx(8, rel=0.004)
    assert 0.5 * quoted.charged < quoted.alone < quoted.charged
    assert f"{quoted.alone:.4g}" in str(quoted)
    assert f"{quoted.charged:.4g}" in str(quoted)


def test_a_number_is_learnt_too(lab: sf.Lab) -> None:
    for module in (nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))):
        found = fitted(lab, trainer(module, nn.MSELoss()), target="y")
        assert found.coding_.target == pytest.approx((1, 5), abs=0.01)


def test_the_same_run_again_is_free_and_gives_the_same(lab: sf.Lab) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    again, other = copy.deepcopy(module), copy.deepcopy(module)
    first = fitted(lab, trainer(module))
    left = str(lab.session().budget)
    asked = trainer(again)
    assert lab.session().quote(asked, table="t", features=FEATURES, target="kind").free
    second = fitted(lab, asked)
    assert str(lab.session().budget) == left
    assert all(map(torch.equal, first.module.parameters(), second.module.parameters()))
    fitted(lab, trainer(other, clip=0.5))
    assert kinds(lab) == ["charge", "release"] * 2


def test_code_of_ones_own_is_never_taken_for_another(lab: sf.Lab) -> None:
    """Two functions can look alike; a run with one of them is charged each time."""
    module = nn.Linear(4, 2)
    for each in (copy.deepcopy(module), module):
        fitted(lab, trainer(each, lambda came, y: nn.functional.cross_entropy(came, y, reduction="none")))
    assert kinds(lab) == ["charge", "release"] * 2


def test_pickled_and_copied_trainers_spend_from_the_same_account(lab: sf.Lab) -> None:
    asked = trainer()
    copies = [pickle.loads(pickle.dumps(asked)), copy.deepcopy(asked)]
    fitted(lab, asked)
    left = str(lab.session().budget)
    for each in copies:  # the same weights before, so the same question
        fitted(lab, each)
    assert str(lab.session().budget) == left
    for each in (asked, pickle.loads(pickle.dumps(asked)), copy.deepcopy(asked)):
        with pytest.raises(UsageError, match="SF-E179"):
            fitted(lab, each)


# ---- who is protected --------------------------------------------------------------------------------------


def watch_sums(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that the sums of each step come into, all units being in its batch; no noise is added."""
    seen: list[Tensor] = []

    def spy(sums: list[Tensor], _: float) -> list[Tensor]:
        seen.append(torch.cat([each.flatten() for each in sums]))
        return sums

    monkeypatch.setattr(training, "add_normals", spy)
    monkeypatch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    return seen


def sums_of(monkeypatch: pytest.MonkeyPatch, lab: sf.Lab, table: Any, **settings: Any) -> Tensor:
    """Return the sums of the one step of a run."""
    seen = watch_sums(monkeypatch)
    torch.manual_seed(1)
    fitted(lab, trainer(steps=1, **settings), table=table)
    return seen[-1]


@pytest.mark.parametrize(("clip", "rows_each"), [("auto", 1), (0.1, 2), ("auto", 3)])
def test_the_sums_of_neighbours_differ_by_no_more_than_the_norm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clip: Any, rows_each: int
) -> None:
    """Tables with and without one person, through the whole door, with the same random bits."""
    whole = source(60).set_column(0, "who", pa.array(np.arange(60) // 3))
    found, lab = [], sf.create(tmp_path / "lab")
    # One lab orders the rows of a person alike in both tables, and so do neighbours.
    for name, rows in (("one", whole), ("other", whole.slice(3))):
        unit = sf.Unit("who", max_rows=3, of="people")
        lab.register(name, rows, unit=unit, columns=COLUMNS, budget=BUDGET)
        settings = {"clip": clip, "rows": 20, "batch_size": 10, "rows_per_unit": rows_each}
        found.append(sums_of(monkeypatch, lab, name, **settings))
    apart = float((found[0] - found[1]).norm())
    norm = 1.0 if clip == "auto" else clip
    assert 0.9 * norm < apart <= norm


def test_all_rows_of_a_unit_count_as_on_own_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the catalog allows counts, and a row without a class has no loss."""
    lab = sf.create(tmp_path / "lab")
    lab.register("t", source(), unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=BUDGET)
    settings = {"rows": 200, "batch_size": 20}
    together = sums_of(monkeypatch, lab, "t", **settings)
    frame, asked = source().to_pandas(), trainer(steps=1, rows_per_unit=2, **settings)
    coding = tables.TrainingOffer.make(
        lab.session()._payer, asked, "t", FEATURES, "kind", None, None
    ).kernel.coding
    known = np.array(frame["kind"].notna())
    seen = watch_sums(monkeypatch)
    monkeypatch.setattr(training, "solve_multiplier", lambda *given: 1.0)  # there is no noise here
    torch.manual_seed(1)
    own = trainer(steps=1, rows_per_unit=2, **settings)
    labels = torch.tensor([each == "yes" for each in frame["kind"][known]]).long()
    own.fit((coding.encode(frame)[known], labels), frame["who"][known])
    torch.testing.assert_close(together, seen[-1], rtol=1e-3, atol=2e-3)


def test_a_filtered_frame_and_its_other_side_can_be_learnt_from(lab: sf.Lab) -> None:
    few = lab.session().table("t").where("x1 >= 25")
    assert fitted(lab, trainer(), table=few).guarantee_.unit == "one row"
    fitted(lab, trainer(), split=(0.8, "train"))
    fitted(lab, trainer(), table=few, target="ward", features=["x0", "x1", "kind"])


def test_replaced_units_have_batches_of_a_fixed_size(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    survey: dict[str, Any] = {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "rows": ROWS}
    lab.register("t", source(), columns=COLUMNS, budget=BUDGET, **survey)
    asked = trainer(sampling="fixed", rows=None)
    quoted = lab.session().quote(asked, table="t", features=FEATURES, target="kind")
    found = fitted(lab, asked)
    assert quoted.guarantee.assumes == found.guarantee_.assumes == "the number of units is public"
    assert found.guarantee_.neighbours == "replace-one"
    assert found.guarantee_.alone <= found.guarantee_.in_an_account
    with pytest.raises(PolicyError, match="SF-E132"):
        fitted(lab, trainer(sampling="poisson"))
    with pytest.raises(PolicyError, match="SF-E132"):
        fitted(lab, trainer(sampling="fixed"), table=lab.session().table("t").where("x1 >= 25"))
    with pytest.raises(PolicyError, match="SF-E132"):
        fitted(lab, trainer(sampling="fixed", rows=ROWS + 1))


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_few_rows_are_no_errors(tmp_path: Path, rows: int) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register(
        "t", source().slice(4, rows), unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=BUDGET
    )
    found = fitted(lab, trainer())
    assert all(torch.isfinite(each).all() for each in found.module.parameters())


# ---- what is refused, and when -----------------------------------------------------------------------------

WRONG: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "fixed batches": ("SF-E132", {"sampling": "fixed"}, {}),
    "no number of units": ("SF-E132", {"rows": None}, {}),
    "no target": ("SF-E132", {}, {"target": None}),
    "free text": ("SF-E112", {}, {"features": ["note"]}),
    "free text as a class": ("SF-E112", {}, {"target": "note"}),
    "unknown column": ("SF-Q1", {}, {"features": ["other"]}),
    "column twice": ("SF-E110", {}, {"features": ["x0", "x0"]}),
    "batch norm": ("SF-E174", {"module": nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))}, {}),
    "mean of a batch": ("SF-E174", {"loss": lambda came, y: LOSS(came, y)}, {}),
    "too few classes": ("SF-E176", {"module": nn.Linear(4, 1)}, {}),
    "other shape": ("SF-E176", {"module": nn.Linear(5, 2)}, {}),
    "no length": ("SF-E179", {"steps": None}, {}),
    "large batch": ("SF-E179", {"batch_size": ROWS + 1}, {}),
    "no budget": ("SF-N101", {"epsilon": 0}, {}),
    "no delta": ("SF-N316", {"delta": 0}, {}),
    "a closure": ("SF-E179", {"optimiser": torch.optim.LBFGS}, {}),
    "other bounds": ("SF-E112", {"bounds": {"x0": (5, 6)}}, {}),
    "other rule": ("SF-E101", {"missing": "zero"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_told_before_the_charge(lab: sf.Lab, what: str) -> None:
    code, settings, more = WRONG[what]
    asked = trainer(**{"module": nn.Linear(4, 2), **settings})
    before = copy.deepcopy(asked.module.state_dict())
    for ask in (lab.session().fit, lab.session().quote)[: 1 if what == "a closure" else 2]:
        with pytest.raises(SfumatoError, match=code):
            ask(asked, **{"table": "t", "features": FEATURES, "target": "kind", **more})
    assert kinds(lab) == []
    assert all(torch.equal(before[name], each) for name, each in asked.module.state_dict().items())


def test_a_budget_that_does_not_hold_it_is_not_touched(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register("t", source(), unit=sf.ROW, columns=COLUMNS, budget=sf.Budget(epsilon=7.9, delta=1e-6))
    assert not lab.session().quote(trainer(), table="t", features=FEATURES, target="kind").admitted
    with pytest.raises(BudgetError, match="SF-B101"):
        fitted(lab, trainer())
    fitted(lab, trainer(epsilon=7.9))
    assert kinds(lab) == ["charge", "release"]


def test_other_kinds_of_trainers_and_estimators_are_refused(lab: sf.Lab) -> None:
    class Own(sf.deep.Trainer):
        pass

    with pytest.raises(UsageError, match="SF-E117"):
        fitted(lab, Own(nn.Linear(4, 2), LOSS))
    with pytest.raises(UsageError, match="SF-E138"):
        lab.session().quote(sf.learn.LinearRegression(), table="t", features=FEATURES)  # type: ignore[arg-type]


def test_a_hostile_session_runs_no_programs_of_others(lab: sf.Lab) -> None:
    lab.grant("eve", epsilon=20, delta=1e-6)
    with pytest.raises(PolicyError, match="SF-E132"):
        lab.session("eve", hostile=True).fit(trainer(), table="t", features=FEATURES, target="kind")
    assert kinds(lab) == []


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows when rows of the table are read."""
    seen: list[int] = []
    read = tables.TableCoding.read
    monkeypatch.setattr(tables.TableCoding, "read", lambda self, *given: seen.append(1) or read(self, *given))
    return seen


def test_what_fails_after_the_charge_says_nothing(lab: sf.Lab, rows_read: list[int]) -> None:
    def project(module: nn.Module) -> None:
        if rows_read:
            raise ValueError(f"a row like {module}")

    with pytest.raises(SealedError, match="SF-X901") as raised:
        fitted(lab, trainer(project=project))
    assert "row like" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert kinds(lab) == ["charge"]


def test_rows_on_which_a_module_fails_count_nothing(lab: sf.Lab, rows_read: list[int]) -> None:
    class Failing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            if rows_read:
                raise ValueError(f"a row like {x[0]}")
            return super().forward(x)

    fitted(lab, trainer(Failing(4, 2), batch_size=ROWS))
    assert kinds(lab) == ["charge", "release"]


def test_the_charge_is_durable_before_a_row_is_read(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    read = tables.TableCoding.read

    def spy(self: Any, *given: Any) -> Any:
        seen.append(kinds(lab))
        return read(self, *given)

    monkeypatch.setattr(tables.TableCoding, "read", spy)
    fitted(lab, trainer())
    assert seen == [["charge"]]


# ---- measuring ---------------------------------------------------------------------------------------------


def test_a_trained_module_is_measured_like_any_model(lab: sf.Lab) -> None:
    found = fitted(lab, trainer(nn.Linear(2, 2), steps=60, epsilon=60), features=["x0", "x1"])
    asked: dict[str, Any] = {"table": "t", "target": "kind", "epsilon": 20}
    measured = lab.session().evaluate(found, **asked)
    frame = source().to_pandas()
    right = found.module(found.encode(frame)).argmax(1).numpy() == (frame["kind"] == "yes")
    assert measured.accuracy.value == pytest.approx(right[frame["kind"].notna()].mean(), abs=0.1)  # type: ignore[union-attr]
    assert kinds(lab) == ["charge", "release"] * 2
    again = lab.session().evaluate(found, **asked)  # kept, and free
    assert again.accuracy.value == measured.accuracy.value  # type: ignore[union-attr]
    assert kinds(lab) == ["charge", "release"] * 2
    number = fitted(lab, trainer(nn.Linear(4, 1), nn.MSELoss(), steps=60, epsilon=60), target="y")
    assert lab.session().evaluate(number, table="t", target="y", epsilon=20).r2.value < 1.1  # type: ignore[union-attr]


def test_modules_that_cannot_be_measured_are_told_before_the_charge(lab: sf.Lab) -> None:
    asked: dict[str, Any] = {"table": "t", "target": "kind", "epsilon": 1}
    with pytest.raises(PolicyError, match="SF-E112"):
        lab.session().evaluate(trainer(), **asked)
    found = fitted(lab, trainer())
    found.module = nn.Sequential(found.module, nn.Softmax(0))
    with pytest.raises(UsageError, match="SF-E174"):
        lab.session().evaluate(found, **asked)
    with pytest.raises(PolicyError, match="SF-E112"):
        lab.session().evaluate(found, **{**asked, "target": "y"})
    assert kinds(lab) == ["charge", "release"]
