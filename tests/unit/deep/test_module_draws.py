"""Random numbers of modules and augmentations: a seed that somebody set does not tell them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.module_draws import keep_random_states, seed_in_secret  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402

ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
TARGETS = (ROWS[:, 0] > 0).astype(np.int64)


class Shifted(torch.nn.Module):
    """Adds noise of NumPy to every row while it trains."""

    def forward(self, rows: Any) -> Any:
        noise = np.random.normal(size=rows.shape).astype(np.float32)
        return rows + torch.from_numpy(noise) if self.training else rows


class Flipped(torch.nn.Module):
    """Flips the sign of a row by a coin of Python's while it trains."""

    def forward(self, rows: Any) -> Any:
        coins = torch.tensor([random.choice((-1.0, 1.0)) for _ in rows])
        return rows * coins[:, None] if self.training else rows


def _train(layer: Any) -> Any:
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(7)
    module = torch.nn.Sequential(layer, torch.nn.Linear(6, 2))
    trainer = deep.Trainer(
        module, torch.nn.CrossEntropyLoss(), epsilon=2, delta=1e-5, steps=2, batch_size=40, rows=40
    )
    trainer.fit((ROWS, TARGETS))
    return module[1].weight.detach().clone()


@pytest.mark.parametrize("layer", [torch.nn.Dropout(0.5), Shifted(), Flipped()])
def test_a_known_seed_tells_no_draws_for_rows(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without noise, and with all rows in every batch, runs differ by what is drawn for rows alone.
    monkeypatch.setattr(training, "solve_multiplier", lambda *_: 1.0)
    monkeypatch.setattr(training, "add_normals", lambda sums, _: [each.clone() for each in sums])
    monkeypatch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))
    assert not torch.equal(_train(layer), _train(layer))
    assert torch.equal(_train(torch.nn.Identity()), _train(torch.nn.Identity()))


def test_generators_are_left_as_they_were() -> None:
    def read() -> list[Any]:
        return [torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()]

    before = read()
    with keep_random_states():
        seed_in_secret()
        assert all(one != other for one, other in zip(before, read(), strict=True))
    assert read() == before


def _jitter(rows: Any) -> Any:
    return rows + torch.randn_like(rows)


def _jitter_alike(rows: Any) -> Any:
    return rows + torch.randn_like(rows[:1])


def _jitter_in_order(rows: Any) -> Any:
    return _jitter(rows) + rows.cumsum(0)


def _train_augmented(augment: Any) -> Any:
    module = torch.nn.Linear(6, 2)
    trainer = deep.Trainer(
        module, torch.nn.CrossEntropyLoss(), steps=1, batch_size=20, augment=augment, augmentations=2
    )
    return trainer.fit((ROWS, TARGETS))


def test_augmentations_draw_for_each_row_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "solve_multiplier", lambda *_: 1.0)
    assert _train_augmented(_jitter).multiplier_ == 1
    for shared in (_jitter_alike, _jitter_in_order):
        with pytest.raises(UsageError, match="SF-E174"):
            _train_augmented(shared)
