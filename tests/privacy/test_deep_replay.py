"""A trainer replayed on neighbours, and copies of it with the mistakes that people make.

Every unit is in every batch, so that a replay needs no coins. Nothing here is left to chance.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato import audit  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.batches import PoissonBatches  # noqa: E402
from sfumato.deep.step_noise import IndependentNoise  # noqa: E402
from sfumato.deep.trainer import Trainer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Mistake = Callable[[pytest.MonkeyPatch], None]

ROWS, EACH, MULTIPLIER = 24, 3, 1.5
SETTINGS: dict[str, Any] = {
    "steps": 1,
    "batch_size": ROWS // EACH,
    "rows": ROWS // EACH,
    "rows_per_unit": EACH,
    "micro_batch": 9,
    "clip": 0.5,
}


def _pair() -> tuple[Any, Any]:
    """All units, and all but one whose gradient is large."""
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(ROWS, 4)).astype("float32"), np.arange(ROWS) % 2
    x[-EACH:] *= 50
    people = np.arange(ROWS) // EACH
    return (x, y, people), (x[:-EACH], y[:-EACH], people[:-EACH])


def _train(table: Any, **settings: Any) -> list[Any]:
    x, y, people = table
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    deep.Trainer(module, nn.CrossEntropyLoss(), **{**SETTINGS, **settings}).fit((x, y), groups=people)
    return [each.detach().numpy() for each in module.parameters()]


@pytest.fixture(autouse=True)
def stated_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is stated, since solving for it takes long; what it costs is what is claimed."""
    monkeypatch.setattr(training, "solve_multiplier", lambda *_: MULTIPLIER)


def _find_claim(steps: int) -> Any:
    return PoissonBatches(Fraction(1)).event(MULTIPLIER, steps)


def test_a_trainer_gives_neighbours_the_same_course() -> None:
    claim = _find_claim(3)
    found = audit.replay(lambda table: _train(table, steps=3), [_pair()], claim=claim)
    assert not found.violates
    assert found.calls == 3
    assert 0.9 < found.reached <= 1


def _divide_by_the_real_batch(patch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw, release = PoissonBatches.draw, IndependentNoise.release

    def counted(self: Any, units: int) -> Any:
        chosen = draw(self, units)
        drawn.append(len(chosen))
        return chosen

    def divided(self: Any, sums: Any, add: Any) -> Any:
        return [each * SETTINGS["batch_size"] / drawn[-1] for each in release(self, sums, add)]

    patch.setattr(PoissonBatches, "draw", counted)
    patch.setattr(IndependentNoise, "release", divided)


def _divide_by_the_real_number_of_units(patch: pytest.MonkeyPatch) -> None:
    fit = Trainer.fit

    def fit_all(self: Any, data: Any, groups: Any) -> Any:
        self.batch_size = len(np.unique(groups))
        self.rows = None
        return fit(self, data, groups)

    patch.setattr(Trainer, "fit", fit_all)


class _Plan:
    """Stands where sums are computed, and computes them in another way."""

    def __init__(self, plan: Any, compute: Callable[..., Any]) -> None:
        self.parameters, self._plan, self._compute = plan.parameters, plan, compute

    def compute(self, losses: Any, factors: Any, rows_per_unit: int) -> Any:
        return self._compute(self._plan.compute, losses, factors, rows_per_unit)


def _sum_otherwise(patch: pytest.MonkeyPatch, compute: Callable[..., Any]) -> None:
    begin = training.TrainingRun.begin

    def changed(*given: Any) -> Any:
        run = begin(*given)
        run.plan = _Plan(run.plan, compute)
        return run

    patch.setattr(training.TrainingRun, "begin", changed)


def _clip_the_mean_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    def together(compute: Any, losses: Any, factors: Any, rows_per_unit: int) -> Any:
        rows = len(losses())
        return [each * (rows // rows_per_unit) for each in compute(losses, factors, rows)]

    _sum_otherwise(patch, together)


def _clip_row_by_row(patch: pytest.MonkeyPatch) -> None:
    _sum_otherwise(patch, lambda compute, losses, factors, rows_per_unit: compute(losses, factors, 1))


def _add_noise_before_accumulation(patch: pytest.MonkeyPatch) -> None:
    """Each of three micro-batches gets a third of the noise, as if deviations added up."""
    sum_part, release = training.TrainingRun._sum_part, IndependentNoise.release

    def noisy(self: Any, units: Any) -> Any:
        less = IndependentNoise(self.noise.multiplier / 3, self.noise.norm)
        return release(less, sum_part(self, units), training.add_normals)

    patch.setattr(training.TrainingRun, "_sum_part", noisy)
    patch.setattr(IndependentNoise, "release", lambda self, sums, add: list(sums))
    patch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))


def _leave_noise_out_of_later_parts(patch: pytest.MonkeyPatch) -> None:
    """Only the first micro-batch of a step gets noise."""
    sum_part, release = training.TrainingRun._sum_part, IndependentNoise.release

    def noisy(self: Any, units: Any) -> Any:
        part = sum_part(self, units)
        return release(self.noise, part, training.add_normals) if units[0] == 0 else part

    patch.setattr(training.TrainingRun, "_sum_part", noisy)
    patch.setattr(IndependentNoise, "release", lambda self, sums, add: list(sums))
    patch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))


@pytest.mark.parametrize(
    ("mistake", "finding"),
    [
        (_divide_by_the_real_batch, "the result differs although every noisy answer was the same"),
        (_divide_by_the_real_number_of_units, "the result differs although every noisy answer was the same"),
        (_clip_the_mean_of_a_batch, "moved by"),
        (_clip_row_by_row, "moved by"),
        (_add_noise_before_accumulation, "pays for"),
        (_leave_noise_out_of_later_parts, "the result differs although every noisy answer was the same"),
    ],
)
def test_a_mistake_is_found(mistake: Mistake, finding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = _find_claim(1)
    mistake(monkeypatch)
    found = audit.replay(_train, [_pair()], claim=claim)
    assert found.violates
    assert finding in (found.finding or "")
