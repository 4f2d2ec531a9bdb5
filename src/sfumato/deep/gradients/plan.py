"""Finding the layers of a module whose gradients are known one by one, and checking that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sfumato.deep.gradients.by_vmap import where_rows_are
from sfumato.deep.gradients.calls import CallRecorder
from sfumato.deep.gradients.clipped_sum import ClippedSum
from sfumato.deep.gradients.registry import BY_VMAP, find_rule
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    RowLosses = Callable[[slice], Tensor]
    """Returns the losses of some rows of a made-up batch."""


def plan_layers(module: nn.Module, losses: RowLosses, rows: int) -> ClippedSum:
    """Return how to sum clipped gradients of a module, after comparing it with a plain loop on made-up rows.

    Where a part of the module does not give the loop's sums, its parent is run row by row instead: a
    parameter may be used outside its layer, or the first dimension may not be the rows.
    """
    parameters = tuple(each for each in module.parameters() if each.requires_grad)
    expected = _sum_by_loop(parameters, losses, rows)
    whole: set[nn.Module] = set()
    parents = {child: parent for parent in module.modules() for child in parent.children()}
    while True:
        layers = tuple(dict.fromkeys(_list_layers(module, whole)))
        plan = ClippedSum(layers, parameters, _find_row_places(layers, losses, rows))
        wrong = _find_wrong(plan, losses, rows, expected)
        if not wrong:
            return plan
        blamed = {each for each in layers if wrong & {id(held) for held in each.parameters()}}
        more = {parents.get(each, each) for each in blamed} or {module}
        if more <= whole:
            raise UsageError(
                "SF-E174",
                "The gradients of this module cannot be told apart row by row.",
                why="rows are mixed, or its random numbers differ from run to run",
                try_="layers that treat each row on its own, with rows first (batch_first=True)",
            )
        whole |= more


def _find_row_places(
    layers: tuple[nn.Module, ...], losses: RowLosses, rows: int
) -> dict[nn.Module, tuple[int | None, ...]]:
    """Return where the rows are in what goes into layers: the dimension that shrinks with the batch."""
    heard = []
    for some in (rows, rows - 1):
        recorder = CallRecorder()
        with recorder.listen(layers):
            losses(slice(0, some))
        heard.append(recorder.list_inputs())
    found: dict[nn.Module, tuple[int | None, ...]] = {}
    for (layer, many), (_, few) in zip(*heard, strict=False):
        place = where_rows_are(layer)[0]
        found[layer] = tuple(_has_rows(*pair, place) for pair in zip(many, few, strict=False))
    return found


def _has_rows(many: Any, few: Any, place: int) -> int | None:
    tensors = isinstance(many, torch.Tensor) and many.dim() > place
    return place if tensors and many.shape[place] != few.shape[place] else None


def _list_layers(module: nn.Module, whole: set[nn.Module]) -> Iterator[nn.Module]:
    if not any(each.requires_grad for each in module.parameters()):
        return
    own = any(each.requires_grad for each in module.parameters(recurse=False))
    if own or module in whole or find_rule(module) is not BY_VMAP:
        yield module
        return
    for child in module.children():
        yield from _list_layers(child, whole)


def _sum_by_loop(parameters: tuple[nn.Parameter, ...], losses: RowLosses, rows: int) -> list[Tensor]:
    """Return the sums of gradients, where row i has the weight i + 1, and after them the norms."""
    total = [torch.zeros_like(each) for each in parameters]
    norms = []
    for row in range(rows):
        loss = losses(slice(row, row + 1)).sum()
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        norms.append(torch.cat([each.flatten() for each in found]).norm())
        for place, each in enumerate(found):
            total[place] += each * (row + 1)
    return [*total, torch.stack(norms)]


def _find_wrong(plan: ClippedSum, losses: RowLosses, rows: int, expected: list[Tensor]) -> set[int]:
    """Return the parameters whose sums are not those of the loop; all of them if the sums cannot be made."""
    norms: list[Tensor] = []

    def weigh(each: Tensor) -> Tensor:
        norms.append(each)
        return torch.arange(1, rows + 1).to(each)

    try:
        found = plan.compute(lambda: losses(slice(0, rows)), weigh)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, UsageError):
        return {id(each) for each in plan.parameters}
    wrong = {
        id(parameter)
        for parameter, each, right in zip(plan.parameters, found, expected[:-1], strict=True)
        if not _is_close(each, right)
    }
    if not wrong and norms and not _is_close(norms[0], expected[-1]):
        return {id(each) for each in plan.parameters}
    return wrong


def _is_close(each: Tensor, right: Tensor) -> bool:
    return each.shape == right.shape and torch.allclose(each.to(right), right, rtol=1e-3, atol=1e-4)
