"""Checkpoints: a run that was killed goes on under its first price, so often as that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.checkpoints import Stretches  # noqa: E402
from sfumato.errors import PolicyError, UsageError  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

X = torch.rand(60, 3)
Y = (X[:, 0] > 0.5).long()


@pytest.fixture(autouse=True)
def _no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which noise a price needs is tested elsewhere."""
    monkeypatch.setattr(training, "solve_multiplier", lambda *given: 1.0)


def trainer(path: Path, module: nn.Module | None = None, **settings: Any) -> deep.Trainer:
    chosen = {"steps": 120, "batch_size": 20, "rows": 60, "checkpoint": path, "resumes": 1, **settings}
    module = nn.Linear(3, 2) if module is None else module
    return deep.Trainer(module, nn.CrossEntropyLoss(), optimiser=torch.optim.Adam, average=0.9, **chosen)


class _Steps:
    """Counts steps, and ends the process after some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken, self.last = 0, -1
        self._draw = training.add_normals
        monkeypatch.setattr(training, "add_normals", self)

    def __call__(self, sums: list[Tensor], deviation: float) -> list[Tensor]:
        if self.taken == self.last:
            raise KeyboardInterrupt
        self.taken += 1
        return self._draw(sums, deviation)

    def kill_after(self, taken: int, asked: deep.Trainer) -> None:
        self.last = self.taken + taken
        with pytest.raises(KeyboardInterrupt):
            asked.fit((X, Y))
        self.last = -1


@pytest.mark.parametrize("steps", [1, 3, 49, 50, 51, 120, 1_001])
def test_no_way_of_dying_takes_more_steps_than_are_priced(steps: int) -> None:
    cut = Stretches.of(steps, 2)
    assert cut.needed * cut.each >= steps > (cut.needed - 1) * cut.each
    assert cut.priced >= steps + 2 * cut.each
    assert cut.priced <= 1.2 * steps + 3


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch)
    module = nn.Linear(3, 2)

    def half(made: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(made, lambda step: 0.5 ** (step // 60))

    steps.kill_after(64, trainer(tmp_path / "run.pt", module, schedule=half))
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    assert (saved["done"], saved["resumed"]) == (63, 0)
    found = trainer(tmp_path / "run.pt", schedule=half).fit((X, Y))
    # 64 before and 57 after: one step of a stretch of three was lost.
    assert steps.taken == 121
    assert found.steps_ == 120
    assert found.event_.times == 123  # type: ignore[attr-defined]
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    assert saved["state"]["optimiser"]["state"][0]["step"] == 120
    assert saved["state"]["optimiser"]["param_groups"][0]["lr"] == 0.125
    assert "1 times 3 steps" in found.guarantee_.assumes
    again = trainer(tmp_path / "run.pt", schedule=half).fit((X, Y))
    assert steps.taken == 121
    assert torch.equal(again.module.weight, found.module.weight)
    assert torch.equal(found.module.weight, saved["state"]["averaged"]["weight"])


def test_a_run_goes_on_no_more_often_than_is_priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch)
    steps.kill_after(10, trainer(tmp_path / "run.pt"))
    steps.kill_after(0, trainer(tmp_path / "run.pt"))
    with pytest.raises(PolicyError, match="SF-N604"):
        trainer(tmp_path / "run.pt").fit((X, Y))
    assert steps.taken == 10


def test_another_run_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.pt"
    steps = _Steps(monkeypatch)
    steps.kill_after(10, trainer(path))
    settings: tuple[dict[str, Any], ...] = ({"steps": 121}, {"clip": 0.5}, {"rows": 61}, {"resumes": 2})
    others = [trainer(path, **each) for each in settings]
    others += [trainer(path, nn.Sequential(nn.Linear(3, 2)))]
    for each in others:
        with pytest.raises(UsageError, match="SF-E179"):
            each.fit((X, Y))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match="SF-E179"):
        trainer(path).fit((X, Y))
    for wrong in (tmp_path / "none" / "run.pt", 3):
        with pytest.raises(UsageError, match="SF-E179"):
            trainer(wrong).fit((X, Y))  # type: ignore[arg-type]
    assert steps.taken == 10


def test_one_process_at_a_time_uses_a_checkpoint(tmp_path: Path) -> None:
    def meanwhile(module: nn.Module) -> None:
        if not refused:
            with torch.enable_grad(), pytest.raises(UsageError, match="SF-E179") as raised:
                trainer(tmp_path / "run.pt", project=meanwhile).fit((X, Y))
            refused.append(raised.value)

    refused: list[UsageError] = []
    trainer(tmp_path / "run.pt", project=meanwhile).fit((X, Y))
    assert len(refused) == 1


def test_a_checkpoint_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    trainer(tmp_path / "run.pt", steps=1).fit((X, Y))
    assert (tmp_path / "run.pt").stat().st_mode & 0o077 == 0
