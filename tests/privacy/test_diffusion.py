"""A diffusion model replayed on neighbours and audited by canaries, and copies of it with planted mistakes.

Draws, coins and noise have fixed seeds where chance would matter, so that what passes passes every time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato as sf  # noqa: E402
import sfumato.deep as deep  # noqa: E402
from sfumato import audit  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.clipping import FixedNorm  # noqa: E402
from sfumato.deep.generators import diffusion  # noqa: E402
from sfumato.deep.gradients.clipped_sum import ClippedSum  # noqa: E402
from sfumato.synth.images import diffusion_kernel  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from sfumato.synth.images.diffusion_kernel import DiffusionKernel

    Table = tuple[np.ndarray, np.ndarray]

ROWS, NUMBERS, DRAWS = 12, 5, 6


def _kernel(warm: float) -> DiffusionKernel:
    made = sf.synth.Diffusion(
        epsilon=4, delta=1e-5, warm=warm, steps=2, batch_size=ROWS, draws=DRAWS, width=6, warm_steps=3
    )
    return made.make_kernel(made.quote(ROWS), (NUMBERS,), NUMBERS, 2)


def neighbours() -> Iterator[tuple[Table, Table]]:
    """Rows with and without an extreme one, both ways round.

    A row without a class is in no sum, as if it were absent, and keeps the places of the others.
    """
    random = np.random.default_rng(6)
    rows = (random.integers(-4096, 4097, (ROWS, NUMBERS)) / 4096).astype(np.float32)
    for extreme in (1.0, -1.0):
        rows = rows.copy()
        rows[-1] = extreme
        for label in (0, 1):
            labels = np.arange(ROWS) % 2
            labels[-1] = label
            absent = labels.copy()
            absent[-1] = -1
            yield (rows, labels), (rows, absent)
            yield (rows, absent), (rows, labels)


def _release(kernel: DiffusionKernel) -> Any:
    before = {name: each.clone() for name, each in kernel.run.denoiser.state_dict().items()}

    def release(table: Table) -> list[Any]:
        run = kernel.run.run
        run.trainer.module.load_state_dict(before)
        run.trainer.module.train()
        run._begin_steps()
        run.done = 0
        released, denoiser = kernel.measure(*table)
        return [released["counts"], *(each.detach().numpy() for each in denoiser.parameters())]

    return release


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of noise levels are those of the first run: what differs between runs comes from rows."""
    monkeypatch.setattr(diffusion.secrets, "randbits", lambda _: 5)


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize("warm", [0.5, 0])
def test_every_measurement_moves_by_no_more_than_its_price(warm: float) -> None:
    kernel = _kernel(warm)
    found = audit.replay(_release(kernel), neighbours(), claim=kernel.event())
    assert not found.violates, found.sentence
    assert found.reached > 0.9


def _clip_every_draw(patch: pytest.MonkeyPatch) -> None:
    """Each of the K draws has a bound of its own, so that a row moves a sum by up to K of them."""
    compute = ClippedSum.compute
    patch.setattr(
        ClippedSum, "compute", lambda self, losses, clip, rows_per_unit=1: compute(self, losses, clip, 1)
    )


def _clip_no_draw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(training, "choose_clipping", lambda _: FixedNorm(1.0))
    patch.setattr(FixedNorm, "factors", lambda self, norms: 50 * torch.ones_like(norms))


def _count_without_noise(patch: pytest.MonkeyPatch) -> None:
    def measure(self: Any, labels: Any) -> dict[str, Any]:
        return {"counts": np.bincount(labels[labels >= 0], minlength=self.classes).tolist()}

    patch.setattr(diffusion_kernel.ClassCounts, "measure", measure)


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize("mistake", [_clip_every_draw, _clip_no_draw, _count_without_noise])
def test_planted_mistakes_are_caught_by_replay(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    kernel = _kernel(0)
    assert audit.replay(_release(kernel), neighbours(), claim=kernel.event()).violates


# ---- canaries of one run ----


def _audit(patch: pytest.MonkeyPatch, canaries: int) -> audit.CanaryVerdict:
    """Return the verdict on a run of two steps with all rows, at a fixed seed."""
    generator = np.random.default_rng(11)

    def add(sums: Sequence[Tensor], deviation: float) -> list[Tensor]:
        return [each + deviation * torch.from_numpy(generator.normal(size=each.shape)) for each in sums]

    patch.setattr(training, "add_normals", add)
    patch.setattr(training, "solve_multiplier", lambda *_: 1.6)
    patch.setattr(diffusion.secrets, "randbits", lambda _: 5)
    torch.manual_seed(0)
    included = generator.random(canaries) < 0.5
    made = sf.synth.Diffusion(epsilon=4, delta=1e-5, steps=2, batch_size=canaries + ROWS, draws=3, width=6)
    settings = made._read_settings(made.quote(canaries + ROWS), (NUMBERS,), NUMBERS, 2)
    rows = diffusion.make_rows(generator.uniform(-1, 1, (ROWS, NUMBERS)), np.arange(ROWS) % 2, 2)
    trainer = settings.make_trainer(4, 1e-5, canaries + ROWS)
    run = deep.score_gradient_canaries(trainer, (rows.inputs, rows.targets), included)
    return audit.one_run(run.scores, included, run.event, delta=1e-5, independent=True, alpha=0.05)


def test_canaries_stay_below_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _audit(monkeypatch, 1_000)
    assert not found.violates
    assert found.gaussian_bound > 1


def test_draws_that_are_clipped_one_by_one_are_caught_by_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    _clip_every_draw(monkeypatch)
    assert _audit(monkeypatch, 1_000).violates


def test_a_row_of_no_class_moves_nothing() -> None:
    rows = diffusion.make_rows(np.zeros((3, 2)), np.array([0, -1, 1]), 2)
    assert rows.counted is not None
    assert rows.counted.tolist() == [True, False, True]
    assert Fraction(1, 4) == sf.synth.Diffusion().warm
