"""Trainers audited by the canaries of one run, true ones and one that shuffles its batches.

Noise, coins and batches are drawn from generators with fixed seeds, so that what passes passes every time.
One slow test draws them as they are, at a confidence of 1 − 10⁻⁹.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato import audit  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.batches import PoissonBatches  # noqa: E402
from sfumato.deep.gradients.clipped_sum import ClippedSum  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from sfumato.privacy import composition  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

DELTA = 1e-5


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> np.random.Generator:
    """Noise and Poisson batches from one generator, which tests take their coins from too."""
    generator = np.random.default_rng(11)

    def add(sums: Sequence[Tensor], deviation: float) -> list[Tensor]:
        return [each + deviation * torch.from_numpy(generator.normal(size=each.shape)) for each in sums]

    def draw(self: PoissonBatches, units: int) -> np.ndarray:
        return np.flatnonzero(generator.random(units) < float(self.rate))

    monkeypatch.setattr(training, "add_normals", add)
    monkeypatch.setattr(PoissonBatches, "draw", draw)
    return generator


def _rows(count: int = 20) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 5, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def _state_noise(patch: pytest.MonkeyPatch, multiplier: float) -> None:
    """State the noise, since solving for it takes long; what it costs is what is claimed."""
    patch.setattr(training, "solve_multiplier", lambda *_: multiplier)


def _trainer(**settings: Any) -> deep.Trainer:
    torch.manual_seed(0)
    return deep.Trainer(nn.Linear(5, 2), nn.CrossEntropyLoss(), delta=DELTA, **settings)


def _judge(run: Any, **settings: Any) -> audit.CanaryVerdict:
    return audit.one_run(run.scores, run.included, run.event, delta=DELTA, **settings)


@pytest.mark.parametrize("independent", [False, True])
def test_steps_that_are_seen_show_nearly_half_of_the_claim(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch, independent: bool
) -> None:
    """2,000 gradient canaries, three steps on all units; the number of guesses is fixed beforehand."""
    included = seeded.random(2_000) < 0.5
    _state_noise(monkeypatch, 1.9)
    trainer = _trainer(steps=3, batch_size=2_020)
    run = deep.score_gradient_canaries(trainer, _rows(), included)
    found = _judge(run, alpha=0.05, guesses=(125, 125), independent=independent)
    claimed = composition.epsilon(run.event, DELTA, step=1e-3)
    assert 0.4 * claimed <= found.gaussian_bound <= claimed
    assert found.lower_bound <= claimed
    assert not found.violates
    assert trainer.multiplier_ == 0  # the audited trainer itself has not learnt


def test_sampled_batches_keep_their_claim(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    _state_noise(monkeypatch, 1.0)
    included = seeded.random(1_000) < 0.5
    trainer = _trainer(steps=4, batch_size=510, clip=0.1)
    run = deep.score_gradient_canaries(trainer, _rows(), included)
    for independent in (False, True):
        assert not _judge(run, independent=independent).violates
    shown = _judge(run, alpha=0.05, independent=True)
    claimed = composition.epsilon(run.event, DELTA, step=1e-3)
    assert 0.2 * claimed < shown.gaussian_bound <= claimed
    assert shown.lower_bound <= claimed


def _shuffle(patch: pytest.MonkeyPatch, generator: np.random.Generator) -> None:
    """Every unit is in one batch of a pass, as most data loaders do it."""
    parts: list[Any] = []

    def draw(self: PoissonBatches, units: int) -> np.ndarray:
        if not parts:
            parts.extend(np.array_split(generator.permutation(units), round(1 / self.rate)))
        return np.sort(parts.pop())

    patch.setattr(PoissonBatches, "draw", draw)


@pytest.mark.parametrize("shuffled", [False, True])
def test_shuffled_batches_that_are_priced_as_poisson_are_found(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    """With little noise a unit that is surely in some batch is seen more surely than the price allows."""
    _state_noise(monkeypatch, 0.35)
    if shuffled:
        _shuffle(monkeypatch, seeded)
    included = seeded.random(2_000) < 0.5
    trainer = _trainer(steps=4, batch_size=505)
    run = deep.score_gradient_canaries(trainer, _rows(), included)
    assert _judge(run, alpha=1e-6, independent=True).violates is shuffled


@pytest.mark.parametrize("by_row", [False, True])
def test_clipping_row_by_row_is_found(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch, by_row: bool
) -> None:
    """Canaries have as many rows as a unit may, and move a sum by four norms where each row is clipped."""
    if by_row:
        begin, compute = training.TrainingRun.begin, ClippedSum.compute

        def changed(*given: Any) -> Any:
            run = begin(*given)
            monkeypatch.setattr(
                ClippedSum, "compute", lambda self, losses, by, _: compute(self, losses, by, 1)
            )
            return run

        monkeypatch.setattr(training.TrainingRun, "begin", changed)
    included = seeded.random(600) < 0.5
    x, y = _rows(16)
    _state_noise(monkeypatch, 2.0)
    trainer = _trainer(steps=1, batch_size=604, rows_per_unit=4)
    run = deep.score_gradient_canaries(trainer, (x, y), included, groups=np.arange(16) // 4)
    assert _judge(run, alpha=1e-6, independent=True).violates is by_row
    claimed = composition.epsilon(run.event, DELTA, step=1e-3)
    assert (_judge(run, alpha=0.05).gaussian_bound > claimed) is by_row


def test_a_final_module_shows_less_than_its_claim(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random rows with random labels, more numbers in a row than rows: they are learnt by heart."""
    _state_noise(monkeypatch, 0.7)
    generator = torch.Generator().manual_seed(1)
    planted = torch.randn(200, 300, generator=generator), torch.arange(200) % 2
    included = seeded.random(200) < 0.5
    torch.manual_seed(0)
    trainer = deep.Trainer(nn.Linear(300, 2), nn.CrossEntropyLoss(), delta=DELTA, steps=5, batch_size=210)
    rows = torch.randn(10, 300, generator=generator), torch.arange(10) % 2
    run = deep.score_loss_canaries(trainer, rows, planted, included)
    found = _judge(run, alpha=0.05, guesses=(25, 25))
    claimed = composition.epsilon(run.event, DELTA, step=1e-3)
    assert 0.5 < found.lower_bound < found.gaussian_bound <= claimed
    assert not found.violates


def test_augmented_rows_and_whole_numbers_are_taken(
    seeded: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    _state_noise(monkeypatch, 1.0)
    words = torch.arange(40).reshape(20, 2) % 7
    module = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(6, 2))
    trainer = deep.Trainer(
        module,
        nn.CrossEntropyLoss(),
        steps=3,
        batch_size=220,
        augment=lambda rows: rows.flip(1),
        augmentations=2,
        clip=3.0,
    )
    run = deep.score_gradient_canaries(trainer, (words, torch.arange(20) % 2), seeded.random(200) < 0.5)
    assert run.scores[run.included].mean() > run.scores[~run.included].mean()


def test_canaries_without_coins_are_refused() -> None:
    for coins in (np.zeros(0, dtype=bool), np.zeros(4), np.zeros((2, 2), dtype=bool)):
        with pytest.raises(UsageError, match="SF-A101"):
            deep.score_gradient_canaries(_trainer(epsilon=1, steps=1), _rows(), coins)
    with pytest.raises(UsageError, match="SF-A101"):
        deep.score_loss_canaries(_trainer(epsilon=1, steps=1), _rows(), _rows(4), np.zeros(5, dtype=bool))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"steps": 1, "epsilon": 4}, {"steps": 20, "epsilon": 4}, {"steps": 5, "epsilon": 8}]
)
def test_many_canaries_show_more(seeded: np.random.Generator, settings: dict[str, Any]) -> None:
    """At 95 % the bound for any mechanism reaches 40 %, and that of independent canaries three quarters."""
    canaries, claimed = 16_000, settings["epsilon"]
    included = seeded.random(canaries) < 0.5
    run = deep.score_gradient_canaries(_trainer(batch_size=canaries + 20, **settings), _rows(), included)
    found = _judge(run, alpha=0.05, guesses=(500, 500))
    assert 0.4 * claimed <= found.lower_bound <= found.gaussian_bound <= claimed
    assert 0.75 * claimed <= _judge(run, alpha=0.05, independent=True).gaussian_bound <= claimed


@pytest.mark.slow
def test_noise_and_batches_as_they_are_keep_their_claim() -> None:
    """With the operating system's randomness; accused by chance once in 10⁹ runs."""
    included = audit.draw_inclusion(4_000)
    trainer = _trainer(epsilon=4, steps=12, batch_size=1_005)
    run = deep.score_gradient_canaries(trainer, _rows(), included)
    for independent in (False, True):
        assert not _judge(run, alpha=1e-9 / 4, independent=independent).violates
