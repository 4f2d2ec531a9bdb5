"""Sums of clipped gradients are those of a loop over the units, for every kind of module."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from sfumato.deep.gradients.clipped_sum import ClippedSum  # noqa: E402
from sfumato.deep.gradients.plan import plan_layers  # noqa: E402
from sfumato.deep.gradients.registry import BY_VMAP, REWRITINGS, find_rule  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from unit.deep.architectures import NAMES, ROWS, make  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Using padding")
CLIP = 0.3


def _losses(module: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    found = functional.cross_entropy(module(x), labels, reduction="none")
    return found if found.dim() == 1 else found.mean(1)


def _clip(norms: Tensor) -> Tensor:
    return CLIP / norms.clamp(min=CLIP)


def _sum_by_loop(module: nn.Module, x: Tensor, labels: Tensor, rows_per_unit: int) -> list[Tensor]:
    parameters = [each for each in module.parameters() if each.requires_grad]
    total = [torch.zeros_like(each) for each in parameters]
    for start in range(0, len(x), rows_per_unit):
        rows = [slice(row, row + 1) for row in range(start, start + rows_per_unit)]
        loss = sum(_losses(module, x[row], labels[row]).sum() for row in rows)
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        norm = torch.cat([each.flatten() for each in found]).norm()
        for place, each in enumerate(found):
            total[place] += each * _clip(norm)
    return total


@pytest.mark.parametrize("rows_per_unit", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_sum_is_that_of_a_loop(name: str, rows_per_unit: int) -> None:
    module, x, labels = make(name)
    plan = plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)
    for some in (slice(0, ROWS), slice(0, rows_per_unit)):
        found = plan.compute(partial(_losses, module, x[some], labels[some]), _clip, rows_per_unit)
        expected = _sum_by_loop(module, x[some], labels[some], rows_per_unit)
        for each, right in zip(found, expected, strict=True):
            torch.testing.assert_close(each, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_within_1e_5(name: str) -> None:
    module, x, labels = make(name)
    module = module.float()
    x = x.float() if x.is_floating_point() else x
    plan = plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)
    found = plan.compute(partial(_losses, module, x, labels), _clip)
    for each, right in zip(found, _sum_by_loop(module, x, labels, 1), strict=True):
        torch.testing.assert_close(each, right, rtol=1e-5, atol=1e-5)


def _find_norms(module: nn.Module, x: Tensor, gradients: Tensor) -> Tensor:
    """Return the norms of units whose losses have the given gradients by what comes out."""
    seen: list[Tensor] = []

    def see(norms: Tensor) -> Tensor:
        seen.append(norms.double())
        return torch.ones_like(norms)

    plan = ClippedSum((module,), tuple(module.parameters()))
    plan.compute(lambda: (module(x) * gradients).flatten(1).sum(1), see)
    return seen[0]


@pytest.mark.parametrize("kind", ["linear", "matrices", "embedding", "convolution"])
def test_norms_of_addends_that_nearly_cancel_are_those_of_doubles(kind: str) -> None:
    """Single precision alone leaves noise of relative size 1e-3 and more where addends cancel to 1/300."""
    made = torch.Generator().manual_seed(4)
    module, x, g = {
        "linear": (
            nn.Linear(40, 60),
            torch.randn(4, 1, 40, generator=made),
            torch.randn(4, 1, 60, generator=made),
        ),
        "matrices": (
            nn.Linear(3, 2),
            torch.randn(4, 1, 3, generator=made),
            torch.randn(4, 1, 2, generator=made),
        ),
        "embedding": (
            nn.Embedding(5, 60),
            torch.zeros(4, 1, dtype=torch.int64),
            torch.randn(4, 1, 60, generator=made),
        ),
        "convolution": (
            nn.Conv1d(40, 60, 1),
            torch.randn(4, 1, 40, generator=made),
            torch.randn(4, 1, 60, generator=made),
        ),
    }[kind]
    x = torch.cat([x, x], 1)
    g = torch.cat([g, -g * (1 + torch.rand(4, 1, 1, generator=made) / 300)], 1)
    if kind == "convolution":
        x, g = x.mT.contiguous(), g.mT.contiguous()
    single = _find_norms(module, x, g)
    exact = _find_norms(module.double(), x if kind == "embedding" else x.double(), g.double())
    torch.testing.assert_close(single, exact, rtol=1e-4, atol=0)


FORMULAE = {
    *("perceptron", "norms", "convolutions", "depthwise", "channel norms", "residual", "words", "padding"),
    *("lstm", "gru", "attention", "encoder", "line", "tied", "low rank", "linear twice"),
}


@pytest.mark.parametrize("name", sorted(FORMULAE))
def test_usual_layers_have_a_formula(name: str) -> None:
    module, x, labels = make(name)
    plan = plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)
    assert all(find_rule(each) is not BY_VMAP or type(each) in REWRITINGS for each in plan.layers)


def test_the_module_is_left_as_it_was() -> None:
    module, x, labels = make("encoder")
    names = list(module.state_dict())
    plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)
    assert list(module.state_dict()) == names
    assert not any(each._forward_hooks for each in module.modules())
    assert all(each.grad is None for each in module.parameters())


class _Mixing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x - x.mean(0))


def test_a_module_that_mixes_rows_is_refused() -> None:
    module, labels = _Mixing(), torch.randint(0, 3, (ROWS,))
    x = torch.randn(ROWS, 6)
    with pytest.raises(UsageError, match="SF-E174"):
        plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)


def test_a_hook_that_changes_an_output_is_seen() -> None:
    """A layer that somebody hooked computes something else than its class says."""
    module, x, labels = make("perceptron")
    module[0].register_forward_hook(lambda layer, into, came: came * 2)
    plan = plan_layers(module, lambda rows: _losses(module, x[rows], labels[rows]), ROWS)
    found = plan.compute(lambda: _losses(module, x, labels), _clip)
    for each, right in zip(found, _sum_by_loop(module, x, labels, 1), strict=True):
        torch.testing.assert_close(each, right, rtol=1e-10, atol=1e-10)
