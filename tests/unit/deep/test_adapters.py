"""Adapters: they begin as nothing, they alone are trained, and they can be merged back."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from torch import nn  # noqa: E402

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from unit.deep.architectures import NAMES, make  # noqa: E402

FITTING = [name for name in NAMES if "adapt" in name]
PLAIN = ["perceptron", "linear twice", "residual", "encoder", "convolutions", "reflected", "tied"]


@pytest.mark.parametrize("name", PLAIN)
def test_a_module_with_new_adapters_computes_what_it_did(name: str) -> None:
    module, x, _ = make(name)
    module.eval()
    before, keys = module(x), list(module.state_dict())
    adapted = deep.add_adapters(module, rank=2)
    torch.testing.assert_close(adapted(x), before)
    assert list(deep.merge_adapters(adapted).state_dict()) == keys
    torch.testing.assert_close(module(x), before)


@pytest.mark.parametrize("name", FITTING)
@pytest.mark.parametrize("graded", [True, False])
def test_merged_adapters_compute_the_same(name: str, graded: bool) -> None:
    """Without gradients encoders of torch take another path, which reads weights and calls no layer."""
    module, x, _ = make(name)
    module.eval()
    with torch.set_grad_enabled(graded):
        before = module(x)
        found = deep.merge_adapters(module)(x)
    torch.testing.assert_close(found, before)
    assert not any("down" in key for key in module.state_dict())


def test_only_adapters_and_named_parts_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "solve_multiplier", lambda *run: 1.0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8), nn.Linear(8, 2))
    deep.add_adapters(module, rank=2, train=["4"])
    before = {name: each.clone() for name, each in module.state_dict().items()}
    rows = torch.rand(40, 1, 4, 4), torch.arange(40) % 2
    deep.Trainer(module, nn.CrossEntropyLoss(), epsilon=3, steps=3, batch_size=20).fit(rows)
    moved = {name for name, each in module.state_dict().items() if not torch.equal(each, before[name])}
    assert moved == {"0.down.weight", "0.up.weight", "3.down.weight", "3.up.weight", "4.weight", "4.bias"}


def test_a_layer_that_is_used_twice_has_one_adapter() -> None:
    shared = nn.Linear(4, 4)
    module = deep.add_adapters(nn.Sequential(shared, nn.Tanh(), shared), rank=1)
    assert module[0] is module[2]
    assert len([each for each in module.parameters() if each.requires_grad]) == 2
    deep.merge_adapters(module)
    assert module[0] is shared
    assert module[2] is shared


def test_tied_weights_stay_frozen() -> None:
    module, _, _ = make("tied")
    deep.add_adapters(module, rank=2)
    assert isinstance(module.last, nn.Linear)
    assert {name for name, each in module.named_parameters() if each.requires_grad} == {
        "middle.down.weight",
        "middle.up.weight",
    }


@pytest.mark.parametrize("module", [nn.Sequential(nn.Embedding(3, 2)), nn.Linear(2, 2)])
def test_modules_without_a_fitting_layer_are_refused(module: nn.Module) -> None:
    with pytest.raises(UsageError, match="SF-E189"):
        deep.add_adapters(module)
    assert all(each.requires_grad for each in module.parameters())


def test_names_that_the_module_does_not_have_are_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(UsageError, match="SF-E189"):
        deep.add_adapters(module, train=["head"])
    assert isinstance(module[0], nn.Linear)
