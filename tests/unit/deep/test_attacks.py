"""Units that try to move a sum by more than the clipping norm, and modules that mix rows unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.batches import PoissonBatches  # noqa: E402
from sfumato.deep.rows import number_units  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from unit.deep.architectures import NAMES, make  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _find_sum(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], nn.Module], data: Any, **settings: Any
) -> Tensor:
    """Return the sum of one step over all units, without noise."""
    seen: list[Tensor] = []

    def spy(sums: list[Tensor], _: float) -> list[Tensor]:
        seen.append(torch.cat([each.flatten() for each in sums]))
        return sums

    monkeypatch.setattr(training, "add_normals", spy)
    monkeypatch.setattr(training, "check_first_step", lambda *parts, release: release(parts[-1]))
    monkeypatch.setattr(PoissonBatches, "draw", lambda self, units: np.arange(units))
    torch.manual_seed(3)
    module = make()
    groups = settings.pop("groups", None)
    loss = settings.pop("loss", nn.MSELoss())
    chosen = {"epsilon": 4, "delta": 1e-5, "steps": 1, "batch_size": 4, "rows": 8, **settings}
    deep.Trainer(module, loss, **chosen).fit(data, groups)
    return seen[0]


@pytest.mark.parametrize("clip", ["auto", 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e5])
def test_addends_that_cancel_do_not_hide_a_gradient(
    clip: Any, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nearly equal rows with opposite errors: single precision would lose the sum of their products."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, 64, generator=generator)
    y = torch.randn(8, 64, generator=generator)
    row = scale * torch.randn(64, generator=generator)
    x[0], x[1] = row, row * (1 + 1e-4)
    y[0], y[1] = 1e3 * scale, -1e3 * scale
    settings = {"groups": np.arange(8) // 2, "rows_per_unit": 2, "clip": clip, "rows": 4}
    found = []
    for rows in (slice(0, 8), slice(2, 8)):
        data = (x[rows], y[rows])
        groups = settings["groups"][rows]
        found.append(
            _find_sum(monkeypatch, lambda: nn.Linear(64, 64), data, **{**settings, "groups": groups})
        )
    assert (found[0] - found[1]).norm() <= 1.0


@pytest.mark.parametrize("level", [1.0, 200.0, 1e4])
def test_large_inputs_of_a_convolution_stay_within_the_bound(
    level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = level + torch.rand(8, 1, 12, 12, generator=torch.Generator().manual_seed(2))
    y = torch.arange(8) % 2

    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(400, 2))

    settings = {"loss": nn.CrossEntropyLoss()}
    found = [
        _find_sum(monkeypatch, make, (x[rows], y[rows]), **settings) for rows in (slice(0, 8), slice(1, 8))
    ]
    assert (found[0] - found[1]).norm() <= 1.0


def test_rows_that_are_not_there_are_a_units_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that overflows must not take the place of missing rows of others."""
    x, y = torch.rand(8, 5), torch.rand(8, 5)
    x[0] = 3e38
    groups = np.arange(8)
    found = []
    for rows in (slice(0, 8), slice(1, 8)):
        settings = {"groups": groups[rows], "rows_per_unit": 3}
        found.append(_find_sum(monkeypatch, lambda: nn.Linear(5, 5), (x[rows], y[rows]), **settings))
    assert (found[0] - found[1]).norm() <= 1.0
    assert found[0].norm() > 1.0


class _Mixing(nn.Module):
    """Mixes rows only where a test would not look."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.first, self.last, self.where = nn.Linear(5, 5), nn.Linear(5, 2), where
        self.gate = nn.Parameter(torch.zeros(()))
        self.frozen = nn.Parameter(torch.zeros(5), requires_grad=False)
        self.register_buffer("seen", torch.zeros(5))
        if where == "behind a gate":
            nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(0)
        if (self.where == "in training" and self.training) or (
            self.where == "in large batches" and len(x) >= 8
        ):
            x = x - mean
        elif self.where == "behind a gate":
            x = x + self.gate * mean
        elif self.where == "by its neighbour" and self.training:
            x = 0.7 * x + 0.3 * x.roll(1, 0)
        elif self.where == "detached" and self.training:
            x = x - mean.detach()
        elif self.where == "in the largest batches" and len(x) > 60:
            x = x - mean
        elif self.where == "by its place":
            x = torch.cat([x[:16], 2 * x[16:]])
        elif self.where == "frozen parameter":
            with torch.no_grad():
                self.frozen += x.detach().mean(0)
        elif self.where == "large buffer" and len(x) > 50:
            self.seen = self.seen + x.detach().mean(0)
        return self.last(torch.tanh(self.first(x)))


WHERE = (
    "in training",
    "in large batches",
    "behind a gate",
    "by its neighbour",
    "frozen parameter",
    "large buffer",
)
WHERE += ("detached", "in the largest batches", "by its place")


@pytest.mark.parametrize("where", WHERE)
def test_rows_that_mix_are_found(where: str) -> None:
    x, y = torch.rand(60, 5), torch.randint(0, 2, (60,))
    trainer = deep.Trainer(
        _Mixing(where), nn.CrossEntropyLoss(), epsilon=4, delta=1e-5, steps=2, batch_size=58, rows=60
    )
    with pytest.raises(UsageError, match="SF-E174"):
        trainer.fit((x, y))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_augmentation_and_loss_are_part_of_the_check() -> None:
    x, y = torch.rand(40, 5), torch.randint(0, 2, (40,))
    settings: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "steps": 2, "batch_size": 20}
    mixed = deep.Trainer(nn.Linear(5, 2), nn.CrossEntropyLoss(), augment=lambda x: x - x.mean(0), **settings)
    with pytest.raises(UsageError, match="SF-E174"):
        mixed.fit((x, y))
    unseen = deep.Trainer(
        nn.Linear(5, 2), nn.CrossEntropyLoss(), augment=lambda x: x - x.detach().mean(0), **settings
    )
    with pytest.raises(UsageError, match="SF-E174"):
        unseen.fit((x, y))
    # (n, 1) against (n,) is n × n by broadcasting.
    with pytest.raises(UsageError, match="SF-E174"):
        deep.Trainer(nn.Linear(5, 1), nn.MSELoss(), **settings).fit((x, y.float()))


@pytest.mark.parametrize(("settings", "groups"), [({"augmentations": 4}, None), ({"rows_per_unit": 5}, None)])
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], groups: Any) -> None:
    x, y = torch.rand(40, 5), torch.randint(0, 2, (40,))
    chosen = {"epsilon": 4, "delta": 1e-5, "steps": 2, "batch_size": 20, **settings}
    with pytest.raises(UsageError, match="SF-E179"):
        deep.Trainer(nn.Linear(5, 2), nn.CrossEntropyLoss(), **chosen).fit((x, y), groups)


def test_a_trainer_trains_once() -> None:
    x, y = torch.rand(40, 5), torch.randint(0, 2, (40,))
    trainer = deep.Trainer(
        nn.Linear(5, 2), nn.CrossEntropyLoss(), epsilon=4, delta=1e-5, steps=2, batch_size=20
    )
    trainer.fit((x, y))
    with pytest.raises(UsageError, match="SF-E179"):
        trainer.fit((x, y))


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Using padding")
@pytest.mark.parametrize("name", NAMES)
def test_modules_that_keep_rows_apart_are_not_refused(name: str) -> None:
    """Also where a table of places has as many rows as the batch."""
    module, x, labels = make(name)
    settings: dict[str, Any] = {"epsilon": 50, "delta": 1e-5, "steps": 1, "batch_size": 5}
    deep.Trainer(module, nn.CrossEntropyLoss(), **settings).fit((x, labels))


# ---- rounding, copies and functions that learn or fail by themselves ---------------------------------------


def test_gradients_that_vanish_when_squared_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In single precision the square of 1e-25 is 0, but 1e-25 times an input of 1e27 is not."""

    class Faint(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            came: Tensor = self.layer(x)
            return came * 1e-25

    x = torch.zeros(8, 4)
    found = []
    for large in (0.0, 1e27):
        x[3] = large
        found.append(_find_sum(monkeypatch, Faint, (x, torch.ones(8, 4)), clip=1.0))
    assert float((found[0] - found[1]).double().norm()) <= 1


@pytest.mark.parametrize("clip", [1e-36, 1e9])
def test_clipping_norms_that_single_precision_loses_are_refused(clip: float) -> None:
    with pytest.raises(UsageError, match="SF-E179"):
        deep.Trainer(nn.Linear(2, 1), nn.MSELoss(), steps=1, batch_size=2, rows=4, clip=clip).fit(
            (torch.zeros(4, 2), torch.zeros(4, 1))
        )


class _Repeated(nn.Module):
    """Several copies of each row in training, of which each would be bounded by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            came: Tensor = self.head(x)
            return came
        many: Tensor = self.head(x.repeat_interleave(4, 0))
        return many.reshape(len(x), 4, -1).mean(1)


class _Learning(nn.Module):
    """Keeps an average of rows where no noise reaches it."""

    def __init__(self, trained: bool, hidden: bool) -> None:
        super().__init__()
        self.head, self.hidden = nn.Linear(3, 2), hidden
        self.mean = nn.Parameter(torch.zeros(3), requires_grad=trained)

    def forward(self, x: Tensor) -> Tensor:
        came: Tensor = self.head(x - self.mean)
        if self.training:
            with torch.no_grad():
                (self.mean.data if self.hidden else self.mean).lerp_(x.detach().mean(0), 0.5)
        return came


class _LearningLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduction = "mean"
        self.register_buffer("size", torch.ones(()))

    def forward(self, came: Tensor, targets: Tensor) -> Tensor:
        found = nn.functional.cross_entropy(came / self.size.clone(), targets, reduction="none")
        self.size.lerp_(came.detach().abs().mean(), 1e-4)
        return found if self.reduction == "none" else found.mean()


def _mixup(x: Tensor) -> Tensor:
    other = np.random.permutation(len(x))
    return x + 0.1 * torch.from_numpy(x.detach().numpy()[other])


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        pytest.param(_Repeated(), {}, id="copies"),
        *(
            pytest.param(_Learning(*each), {}, id=f"learning-{each}")
            for each in ((False, False), (False, True), (True, False), (True, True))
        ),
        pytest.param(nn.Linear(3, 2), {"loss": _LearningLoss()}, id="loss"),
        pytest.param(nn.Linear(3, 2, dtype=torch.float16), {}, id="half"),
        pytest.param(nn.Linear(3, 2), {"augment": _mixup}, id="mixup"),
        pytest.param(
            nn.Linear(3, 2),
            {"groups": np.array([0, float("nan"), 1, 0] * 2, dtype=object), "rows_per_unit": 2},
            id="groups",
        ),
    ],
)
def test_what_noise_would_not_cover_is_refused(module: nn.Module, settings: dict[str, Any]) -> None:
    kind = next(module.parameters()).dtype
    given = dict(settings)
    loss, groups = given.pop("loss", nn.CrossEntropyLoss()), given.pop("groups", None)
    data = torch.rand(8, 3, dtype=kind), torch.arange(8) % 2
    with pytest.raises(UsageError):
        deep.Trainer(module, loss, steps=2, batch_size=4, rows=8, **given).fit(data, groups)


def test_rows_of_a_unit_are_found_whatever_the_type_of_its_name() -> None:
    names = np.array(["b", 7, "a", 7.0, "b", 3], dtype=object)
    assert number_units(names).tolist() == [0, 1, 2, 1, 0, 3]


def test_a_row_on_which_the_loss_raises_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binary cross entropy takes numbers from 0 to 1 alone; that a run fails would tell of the row."""

    def loss(came: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy(came[:, 0], targets, reduction="none")

    def positive() -> nn.Module:
        layer = nn.Linear(1, 1)
        with torch.no_grad():
            layer.weight.fill_(0.25)
            layer.bias.fill_(0.5)
        return layer

    x = torch.full((8, 1), 0.5)
    found = []
    for value in (0.5, 100.0):
        x[3] = value
        found.append(_find_sum(monkeypatch, positive, (x, torch.ones(8)), loss=loss, clip=1.0))
    assert found[1].isfinite().all()
    assert float((found[0] - found[1]).norm()) <= 1


def test_a_row_that_raises_does_not_change_how_others_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are summed together again: alone, an augmentation may treat them otherwise."""

    def loss(came: Tensor, targets: Tensor) -> Tensor:
        if not bool((came.abs() < 1e6).all()):
            raise ValueError("a loss that checks its input")
        return ((came - targets) ** 2).sum(1)

    x, y = torch.randn(9, 2), torch.randn(9, 2)
    x[8] = 1e9
    sums = [
        _find_sum(monkeypatch, lambda: nn.Linear(2, 2), (x[:many], y[:many]), loss=loss, clip=1.0, rows=9)
        for many in (8, 9)
    ]
    assert torch.equal(*sums)


def _lose_one(x: Tensor) -> Tensor:
    """An augmentation that fails on a batch of one row."""
    return x.squeeze().flip(-1).unsqueeze(1)


class _SharedCoin(nn.Module):
    """One coin decides about all rows of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        came: Tensor = self.layer(x)
        return came * float(torch.rand(()) < 0.5) if self.training else came


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        pytest.param(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), {"augment": _lose_one}, id="one row"),
        pytest.param(_SharedCoin(), {}, id="one coin"),
    ],
)
def test_what_depends_on_how_many_rows_there_are_is_refused(
    module: nn.Module, settings: dict[str, Any]
) -> None:
    data = torch.rand(8, 1, 3) if settings else torch.rand(8, 3), torch.arange(8) % 2
    with pytest.raises(UsageError, match=r"SF-E17[46]"):
        deep.Trainer(module, nn.CrossEntropyLoss(), steps=1, batch_size=4, rows=8, **settings).fit(data)


def test_a_run_takes_no_step_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = deep.Trainer(
        nn.Linear(2, 1),
        nn.MSELoss(),
        steps=2,
        batch_size=2,
        rows=4,
        project=lambda _: monkeypatch.setattr(training.os, "getpid", lambda: -1),
    )
    with pytest.raises(UsageError, match="another process"):
        trainer.fit((torch.zeros(4, 2), torch.zeros(4, 1)))
