"""Training: what runs is what is priced, and bad input is told beforehand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.batches import FixedBatches, PoissonBatches  # noqa: E402
from sfumato.deep.clipping import FixedNorm, Normalised  # noqa: E402
from sfumato.deep.noise import add_normals  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from sfumato.privacy import composition  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 400
LOSS = nn.CrossEntropyLoss()


def _data(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(rows, 5)
    return x, (x[:, 0] > 0).long()


def _trainer(module: nn.Module | None = None, loss: Any = LOSS, **settings: Any) -> deep.Trainer:
    chosen = {"epsilon": 4, "delta": 1e-5, "steps": 3, "batch_size": 40, **settings}
    return deep.Trainer(nn.Linear(5, 2) if module is None else module, loss, **chosen)


def test_a_model_learns_and_says_what_it_protects() -> None:
    data = _data(4_000)
    trainer = _trainer(epochs=10, steps=None, batch_size=200).fit(data)
    assert (trainer.module(data[0]).argmax(1) == data[1]).float().mean() > 0.9
    assert trainer.steps_ == 200
    assert "ε = 4, δ = 1e-05" in str(trainer.guarantee_)
    assert "idealised arithmetic" in str(trainer.guarantee_)
    assert "by the filters of a ledger" in str(trainer.guarantee_)
    assert trainer.guarantee_.to_dict()["in_an_account"] > trainer.guarantee_.alone
    assert composition.epsilon(trainer.event_, 1e-5) <= 4
    assert composition.epsilon(trainer.event_, 1e-5) > 3.9


class _Spy:
    """Stands where noise is added, and remembers the sums and the noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sums: list[list[Tensor]] = []
        self.deviations: list[float] = []
        monkeypatch.setattr(training, "add_normals", self)
        monkeypatch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))

    def __call__(self, sums: list[Tensor], deviation: float) -> list[Tensor]:
        self.sums.append([each.clone() for each in sums])
        self.deviations.append(deviation)
        return sums


def _norm(sums: list[Tensor]) -> float:
    return float(torch.cat([each.flatten() for each in sums]).norm())


def test_the_divisor_is_the_declared_batch_and_noise_is_on_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of σC after averaging a batch of b is noise of bσC on the sum: that is the multiplier here."""
    spy = _Spy(monkeypatch)
    trainer = _trainer(clip=0.5, steps=1, learning_rate=1.0)
    before = trainer.module.weight.detach().clone()
    trainer.fit(_data())
    moved = before - trainer.module.weight.detach()
    torch.testing.assert_close(moved, (spy.sums[0][0] / 40).float())
    assert spy.deviations == [trainer.multiplier_ * 0.5]
    averaged = trainer.multiplier_ * 0.5 / 40
    assert math.isclose(averaged * 40, spy.deviations[0])


@pytest.mark.parametrize("settings", [{}, {"clip": 0.01}, {"micro_batch": 7}, {"sampling": "fixed"}])
def test_a_row_moves_a_sum_by_no_more_than_the_clipping_norm(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same batch with one row more, whose gradient is enormous."""
    x, y = _data(40)
    x[0] *= 1e4
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    monkeypatch.setattr(FixedBatches, "draw", lambda self, units: np.arange(units))
    found = []
    for rows in (slice(0, 40), slice(1, 40)):
        torch.manual_seed(1)
        spy = _Spy(monkeypatch)
        _trainer(steps=1, rows=40, **settings).fit((x[rows], y[rows]))
        found.append(spy.sums[0])
    apart = _norm([one - other for one, other in zip(*found, strict=True)])
    bound = settings.get("clip", 1.0)
    assert 0.9 * bound < apart <= bound


def test_all_rows_of_a_unit_are_clipped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _data(40)
    groups = np.arange(40) // 10
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    found = []
    for rows in (slice(0, 40), slice(10, 40)):
        torch.manual_seed(1)
        spy = _Spy(monkeypatch)
        _trainer(steps=1, rows=4, batch_size=2, rows_per_unit=10, clip=0.1).fit(
            (x[rows], y[rows]), groups[rows]
        )
        found.append(spy.sums[0])
    apart = _norm([one - other for one, other in zip(*found, strict=True)])
    assert 0.09 < apart <= 0.1


def test_a_unit_uses_its_first_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _data(40)
    groups = np.zeros(40)
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    found = []
    for rows in (slice(0, 40), slice(0, 3)):
        torch.manual_seed(1)
        spy = _Spy(monkeypatch)
        _trainer(steps=1, rows=1, batch_size=1, rows_per_unit=3).fit((x[rows], y[rows]), groups[rows])
        found.append(spy.sums[0])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_that_are_no_numbers_count_as_none() -> None:
    module = nn.Sequential(nn.Linear(5, 8), nn.PReLU(), nn.Linear(8, 2))
    x, y = _data()
    x[7] = 1e38
    _trainer(module, loss=nn.MSELoss(), steps=2, batch_size=ROWS).fit((x, torch.stack([y, y], 1).float()))
    assert all(torch.isfinite(each).all() for each in module.parameters())


def test_augmented_copies_of_a_row_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _data(40)
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    spy = _Spy(monkeypatch)
    torch.manual_seed(1)
    module = nn.Linear(5, 2)
    same = _trainer(module, steps=1, rows=40)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    same.fit((x, y))
    module.load_state_dict(before)
    _trainer(module, steps=1, rows=40, augment=lambda rows: rows, augmentations=4).fit((x, y))
    for one, other in zip(*spy.sums, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)


def test_averaged_weights_lag_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    _Spy(monkeypatch)
    module = nn.Linear(5, 2)
    before = module.weight.detach().clone()
    _trainer(module, average=1.0).fit(_data())
    torch.testing.assert_close(module.weight.detach(), before)


def test_optimiser_schedule_and_projection_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _Spy(monkeypatch)
    module = nn.Linear(5, 2)

    def project(each: nn.Module) -> None:
        each.weight.clamp_(-0.1, 0.1)  # type: ignore[operator]

    _trainer(
        module,
        optimiser=torch.optim.Adam,
        learning_rate=10.0,
        schedule=lambda made: torch.optim.lr_scheduler.ExponentialLR(made, 0.5),
        project=project,
    ).fit(_data())
    assert module.weight.detach().abs().max() <= 0.1


# ---- batches and noise -------------------------------------------------------------------------------------


def test_poisson_batches_have_their_rate() -> None:
    from fractions import Fraction

    batches = PoissonBatches(Fraction(1, 10))
    sizes = np.array([len(batches.draw(1_000)) for _ in range(200)])
    # 200,000 coins of chance 1/10: six standard deviations of their mean are 0.004, one false alarm in 5e8.
    assert abs(sizes.mean() / 1_000 - 0.1) < 0.004
    assert sizes.std() > 5
    assert len(PoissonBatches(Fraction(1)).draw(1_000)) == 1_000


def test_fixed_batches_are_different_units() -> None:
    drawn = np.stack([FixedBatches(5, 8).draw(8) for _ in range(400)])
    assert all(len(set(each)) == 5 for each in drawn)
    counts = np.bincount(drawn.ravel(), minlength=8)
    # Each of 8 units is in 400 · 5/8 = 250 batches; six standard deviations are 58.
    assert (abs(counts - 250) < 58).all()
    with pytest.raises(UsageError, match="SF-E179"):
        FixedBatches(5, 8).draw(9)


@pytest.mark.parametrize("count", [1, 999, 100_001])
def test_noise_is_normal(count: int) -> None:
    from scipy import stats

    drawn = add_normals([torch.zeros(count, dtype=torch.float64)], 1.0)[0].numpy()
    assert drawn.shape == (count,)
    assert drawn.dtype == np.float64
    assert stats.kstest(drawn, "norm").pvalue > 1e-9


def test_noise_has_its_size_on_every_number() -> None:
    noisy = add_normals([torch.zeros(300, 400), torch.ones(5)], 3.0)
    assert noisy[0].shape == (300, 400)
    assert abs(float(noisy[0].std()) - 3) < 0.04


@pytest.mark.parametrize("clipping", [FixedNorm(0.5), Normalised(0.5)])
def test_clipped_norms_stay_below_the_bound(clipping: Any) -> None:
    norms = torch.tensor([0.0, 1e-30, 0.4, 0.5, 1.0, 1e30])
    assert (clipping.factors(norms) * norms <= 0.5).all()


# ---- bad input ---------------------------------------------------------------------------------------------

X, Y = _data()
WRONG: dict[str, tuple[str, dict[str, Any], Any]] = {
    "missing values": ("SF-N105", {}, (X.clone().fill_(math.nan), Y)),
    "no rows": ("SF-E176", {}, (X[:0], Y[:0])),
    "other lengths": ("SF-E176", {}, (X, Y[:5])),
    "one array": ("SF-E176", {}, X),
    "texts": ("SF-E176", {}, (np.array(["a"]), Y)),
    "mean of a batch": ("SF-E174", {"loss": lambda came, y: LOSS(came, y)}, (X, Y)),
    "batch norm": ("SF-E174", {"module": nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 2))}, (X, Y)),
    "averages": ("SF-E174", {"module": nn.InstanceNorm1d(5, affine=True, track_running_stats=True)}, (X, Y)),
    "nothing to train": ("SF-E174", {"module": nn.Linear(5, 2).requires_grad_(False)}, (X, Y)),
    "large batch": ("SF-E179", {"batch_size": ROWS + 1}, (X, Y)),
    "no length": ("SF-E179", {"steps": None}, (X, Y)),
    "two lengths": ("SF-E179", {"epochs": 3}, (X, Y)),
    "other sampling": ("SF-E179", {"sampling": "shuffle"}, (X, Y)),
    "label out of range": ("SF-E176", {}, (X, Y + 1)),
    "too few classes": ("SF-E176", {"module": nn.Linear(5, 1)}, (X, Y * 0)),
    "other shape": ("SF-E176", {"module": nn.Linear(6, 2)}, (X, Y)),
    "no budget": ("SF-N101", {"epsilon": 0}, (X, Y)),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_told_before_training(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, settings, data = WRONG[what]
    spy = _Spy(monkeypatch)
    with pytest.raises(UsageError, match=code):
        _trainer(**settings).fit(data)
    assert not spy.sums


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(5, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen += len(x)
        return self.last(x)


def test_a_module_that_counts_rows_is_refused_and_left_as_it_was() -> None:
    module = _Counting()
    with pytest.raises(UsageError, match="SF-E174"):
        _trainer(module).fit(_data())
    assert module.seen == 0


def test_one_row_at_a_time_is_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _data(40)
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    found = []
    for at_once in (1, 2_048):
        torch.manual_seed(1)
        spy = _Spy(monkeypatch)
        _trainer(steps=1, rows=40, micro_batch=at_once).fit((x, y))
        found.append(spy.sums[0])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)


def test_groups_and_steps_are_told_from_public_facts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "solve_multiplier", lambda *given: 2.0)
    with pytest.raises(UsageError, match="SF-E179"):
        _trainer().plot()
    trainer = _trainer(steps=20, verbose=True).fit(_data())
    assert "for 2 units together" in str(trainer.guarantee_)
    assert trainer.guarantee_.alone < trainer.guarantee_.for_group(2) < trainer.guarantee_.for_group(4)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("steps: 2 of 20, ε = ")
    drawn = trainer.plot().spec["data"]["values"]
    spent = [each["spent"] for each in drawn]
    assert len(spent) == 21
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(trainer.guarantee_.alone)


def test_a_batch_without_rows_is_a_step_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not fail: whether a batch is empty would then be seen."""
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(0))
    module = nn.Linear(5, 2)
    before = module.weight.detach().clone()
    _trainer(module, steps=2).fit(_data())
    assert (module.weight != before).all()
