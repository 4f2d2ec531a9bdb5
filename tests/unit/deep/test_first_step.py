"""The first step of a run says if a parameter is left without noise, or is not trained once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.noise import add_normals  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _train(**settings: Any) -> nn.Module:
    chosen: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "steps": 2, "batch_size": 20, **settings}
    module = nn.Sequential(nn.Linear(5, 70), nn.Tanh(), nn.Linear(70, 2))
    deep.Trainer(module, nn.CrossEntropyLoss(), **chosen).fit((torch.rand(40, 5), torch.arange(40) % 2))
    return module


def _noise_on(kept: Callable[[list[Tensor]], list[Tensor]]) -> Callable[[list[Tensor], float], list[Tensor]]:
    """Return a way of adding noise that leaves out some sums."""

    def add(sums: list[Tensor], deviation: float) -> list[Tensor]:
        add_normals(kept(sums), deviation)
        return sums

    return add


def _leave_out_half(sums: list[Tensor]) -> list[Tensor]:
    return [*(each for each in sums[1:]), sums[0].view(-1)[:100]]


@pytest.mark.parametrize(
    "kept", [lambda sums: [], lambda sums: sums[:-1], lambda sums: sums[1:], _leave_out_half]
)
def test_a_parameter_without_noise_is_found(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "add_normals", _noise_on(kept))
    with pytest.raises(UsageError, match="SF-E174"):
        _train()


@pytest.mark.parametrize("chosen", [lambda held: held[1:], lambda held: held[:1]])
def test_an_optimiser_that_leaves_parameters_out_is_found(chosen: Any) -> None:
    def make(parameters: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(chosen(list(parameters)), lr=lr)

    with pytest.raises(UsageError, match="SF-E174"):
        _train(optimiser=make)


def test_usual_runs_pass() -> None:
    """Also with a learning rate that begins at zero, with which nothing moves yet."""
    held = _train(schedule=lambda made: torch.optim.lr_scheduler.LambdaLR(made, lambda step: float(step)))
    assert all(each.grad is None for each in held.parameters())
