"""Passes over the data with correlated noise: its law, its price, and who is in which step."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato import audit  # noqa: E402
from sfumato.deep.ordered import batches as ordered  # noqa: E402
from sfumato.deep.ordered.batches import OrderedBatches  # noqa: E402
from sfumato.deep.ordered.noise import OrderedSums  # noqa: E402
from sfumato.deep.prices import solve_multiplier  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from sfumato.noise import RunningSums  # noqa: E402
from sfumato.noise.continual.banded import BandedToeplitz, plan_bands  # noqa: E402
from sfumato.noise.continual.planning import square_root_variance  # noqa: E402
from sfumato.privacy import Gaussian, composition  # noqa: E402

NOISES = ["independent", "blt", "banded"]


def _matrix(batches: OrderedBatches, steps: int) -> np.ndarray:
    column = batches.factor(steps).list_coefficients(steps)
    return toeplitz(column, np.concatenate([column[:1], np.zeros(steps - 1)]))


def _script(plan: OrderedSums) -> np.ndarray:
    """The noise of each step, as a function of what is drawn: draw t is 1 in cell t and 0 elsewhere."""
    noise, steps = plan.begin(), itertools.count()

    def add(sums: Any, deviation: float) -> Any:
        drawn = torch.zeros(plan.steps, dtype=torch.float64)
        drawn[next(steps)] = deviation
        return [sums[0] + drawn[:2], sums[1] + drawn[2:].reshape(-1, 2)]

    blank = [torch.zeros(2, dtype=torch.float64), torch.zeros((plan.steps - 2) // 2, 2, dtype=torch.float64)]
    released = [noise.release(blank, add) for _ in range(plan.steps)]
    return np.stack([torch.cat([each.flatten() for each in parts]).numpy() for parts in released])


@pytest.mark.parametrize("noise", NOISES)
def test_the_noise_is_that_of_the_factor(noise: str) -> None:
    """Row t of what comes out is row t of C⁻¹, so that the covariance is σ²·(CᵀC)⁻¹, to rounding."""
    plan = OrderedSums(OrderedBatches(6, noise), 40, 3.0, 0.5)
    found = _script(plan)
    np.testing.assert_allclose(found, 1.5 * np.linalg.inv(_matrix(plan.batches, 40)), atol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("steps", "separation"), [(40, 6), (40, 40), (41, 8), (7, 1)])
def test_the_price_is_that_of_the_worst_unit(noise: str, steps: int, separation: int) -> None:
    """The largest norm of C·x over all places, with all of a unit's gradients the same and of norm 1."""
    batches = OrderedBatches(separation, noise)
    matrix = _matrix(batches, steps)
    norms = [np.linalg.norm(matrix[:, place::separation].sum(1)) for place in range(min(separation, steps))]
    assert math.isclose(max(norms), batches.sensitivity(steps), rel_tol=1e-6)
    assert max(norms) <= batches.sensitivity(steps)
    generator = np.random.default_rng(0)
    for place in range(min(separation, steps)):
        moves = np.zeros((steps, 3))
        moves[place::separation] = generator.normal(size=moves[place::separation].shape)
        moves /= np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-300)
        assert np.linalg.norm(matrix @ moves) <= batches.sensitivity(steps)


def test_the_price_is_that_of_a_stream() -> None:
    batches = OrderedBatches(16, "blt")
    stream = RunningSums(Fraction(1), 64, participations=4, separation=16)
    assert batches.factor(64) == stream.factor
    priced = float(stream.grid.sigma / stream.grid.steps)
    assert math.isclose(batches.sensitivity(64), priced, rel_tol=1e-5)
    trainer = _trainer(epsilon=2, epochs=4, sampling="ordered", noise="blt").fit(_data())
    assert trainer.event_ == batches.event(trainer.multiplier_, 64)
    assert 1.99 < composition.epsilon(trainer.event_, 1e-5) <= 2


def test_bands_are_the_square_root_of_the_running_sum() -> None:
    """With as many bands as ticks their square is the running sum; fewer overlap less."""
    whole = plan_bands(16, 1, 16)
    assert len(whole.coefficients) == 16
    column = whole.list_coefficients(16)
    root = toeplitz(column, np.zeros(16))
    np.testing.assert_allclose(root @ root, np.tril(np.ones((16, 16))), atol=1e-12)
    assert math.isclose(whole.norm_squared(16) * whole.sum_squares([16])[0], square_root_variance(16))
    assert len(plan_bands(256, 64, 4).coefficients) <= 4
    for wrong in ((0.5,), (1.0, 1.5), (1.0, 0.2, 0.3), (1.0, -0.1)):
        with pytest.raises(UsageError):
            BandedToeplitz(wrong)


def _data(rows: int = 160) -> tuple[Any, Any]:
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def _trainer(**settings: Any) -> deep.Trainer:
    torch.manual_seed(0)
    return deep.Trainer(nn.Linear(5, 2), nn.CrossEntropyLoss(), delta=1e-5, batch_size=10, **settings)


def test_a_unit_is_in_one_step_of_every_pass() -> None:
    drawing = OrderedBatches(7, "blt").begin()
    passes = [[drawing.draw(300) for _ in range(7)] for _ in range(3)]
    for every in passes:
        np.testing.assert_array_equal(np.sort(np.concatenate(every)), np.arange(300))
        for one, other in zip(every, passes[0], strict=True):
            np.testing.assert_array_equal(one, other)


def _place_by_number(patch: pytest.MonkeyPatch) -> None:
    """Places by a rule instead of coins; other units keep theirs when the last one is left out."""
    patch.setattr(ordered, "draw_uniform", lambda bound, count, _: np.arange(count) % bound)


def _replay(noise: str) -> audit.Replayed:
    """A run on 33 rows and without the last; the loss is linear, so that gradients do not depend on noise."""
    x, y = _data(33)
    settings: dict[str, Any] = {"epsilon": 2, "steps": 9, "rows": 30, "sampling": "ordered", "noise": noise}

    def train(rows: int) -> list[Any]:
        torch.manual_seed(0)
        trainer = deep.Trainer(
            nn.Linear(5, 2), lambda came, _: 9 * came[:, 0], delta=1e-5, batch_size=10, clip=0.7, **settings
        )
        return [each.detach().numpy() for each in trainer.fit((x[:rows], y[:rows])).module.parameters()]

    batches = OrderedBatches(3, noise)
    return audit.replay(train, [(33, 32)], claim=batches.event(solve_multiplier(batches, 9, 2, 1e-5), 9))


@pytest.mark.parametrize("noise", NOISES)
def test_a_run_gives_neighbours_the_same_course(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _place_by_number(monkeypatch)
    found = _replay(noise)
    assert not found.violates
    assert found.calls == 9
    assert 0.8 < found.reached <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_a_unit_that_comes_more_often_than_priced_is_found(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered.OrderedPass, "draw", lambda self, units: np.arange(units))
    assert _replay(noise).violates


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_an_audit_passes_the_claim_and_fails_half_the_noise(noise: str, share: float) -> None:
    """Cells have independent noise, so 6,000 of them are 6,000 runs; the seed is fixed."""
    generator = np.random.default_rng(4)
    plan = OrderedSums(OrderedBatches(2, noise), 6, OrderedBatches(2, noise).sensitivity(6), 1.0)

    def add(sums: Any, deviation: float) -> Any:
        return [
            each + share * deviation * torch.from_numpy(generator.normal(size=each.shape)) for each in sums
        ]

    matrix = _matrix(plan.batches, 6)
    best = matrix.T @ matrix[:, ::2].sum(1)  # the likelihood ratio is a function of this sum

    def draw(moved: float) -> Any:
        def outputs(count: int) -> np.ndarray:
            run = plan.begin()
            sums = [torch.full((count,), moved * (step % 2 == 0), dtype=torch.float64) for step in range(6)]
            return np.stack([run.release([each], add)[0].numpy() for each in sums], axis=1) @ best

        return outputs

    found = audit.run((draw(0.0), draw(1.0)), plan.event(), samples=6_000, alpha=1e-6)
    assert found.violates is (share < 1)


def test_canaries_of_passes_show_much_of_the_claim() -> None:
    """Accused by chance once in 10⁹ runs; the means are some fifteen standard errors apart."""
    included = np.random.default_rng(2).random(1_500) < 0.5
    trainer = deep.Trainer(
        nn.Linear(5, 2),
        nn.CrossEntropyLoss(),
        epsilon=4,
        delta=1e-5,
        steps=4,
        batch_size=830,
        sampling="ordered",
        noise="blt",
    )
    run = deep.score_gradient_canaries(trainer, _data(), included)
    assert run.event == Gaussian(run.event.sigma)
    assert not audit.one_run(run.scores, included, run.event, alpha=1e-9, independent=True).violates
    assert run.scores[included].mean() > run.scores[~included].mean()


def test_what_is_not_priced_is_refused() -> None:
    for settings in (
        {"noise": "blt"},
        {"noise": "banded", "sampling": "fixed"},
        {"noise": "brownian", "sampling": "ordered"},
    ):
        with pytest.raises(UsageError, match="SF-E191"):
            _trainer(epsilon=1, steps=2, **settings).fit(_data())
