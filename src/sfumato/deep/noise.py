"""Gaussian noise in doubles, from the operating system's randomness."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.normals import CHUNK, NormalStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    Floating = NDArray[np.floating[Any]]

_EACH = 1 << 18
"""Numbers that a thread must have for its own: with fewer, threads wait more than they work."""


def add_normals(sums: Sequence[Tensor], deviation: float) -> list[Tensor]:
    """Return sums with Gaussian noise of this standard deviation on every number; the sums are overwritten.

    Noise is added in doubles, and what comes of it is then rounded to the precision of the sums.
    """
    noisy = [_make_writable(each) for each in sums]
    flat = [each.detach().view(-1).numpy() for each in noisy]
    parts = [each[at : at + CHUNK] for each in flat for at in range(0, len(each), CHUNK)]
    workers = min(torch.get_num_threads(), sum(map(len, parts)) // _EACH)
    if workers <= 1:
        _add_to_parts(parts, deviation)
        return noisy
    with ThreadPoolExecutor(workers - 1) as pool:
        others = [pool.submit(_add_to_parts, parts[each::workers], deviation) for each in range(1, workers)]
        _add_to_parts(parts[::workers], deviation)
        for each in others:
            each.result()
    return noisy


def _make_writable(each: Tensor) -> Tensor:
    """Return numbers one after the other, in a precision that NumPy has too."""
    return (each if each.dtype in (torch.float32, torch.float64) else each.float()).contiguous()


def _add_to_parts(parts: Sequence[Floating], deviation: float) -> None:
    """Add noise to parts, neighbours together: one draw for many small ones."""
    stream = NormalStream(deviation)
    for group in _group(parts):
        noise = stream.draw(sum(map(len, group)))
        at = 0
        for part in group:
            _add(part, noise[at : at + len(part)])
            at += len(part)
    places, late = stream.settle()
    ends = np.cumsum([len(part) for part in parts])
    cuts = np.searchsorted(places, ends)
    for part, end, begin, cut in zip(parts, ends, [0, *cuts], cuts, strict=False):
        here = places[begin:cut] - (end - len(part))
        part[here] = _add(part[here], late[begin:cut])


def _group(parts: Iterable[Floating]) -> Iterator[list[Floating]]:
    group: list[Floating] = []
    size = 0
    for part in parts:
        if size + len(part) > CHUNK:
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part)
    if group:
        yield group


def _add(part: Floating, noise: NDArray[np.float64]) -> Floating:
    return np.add(part, noise, out=part, casting="same_kind", dtype=np.float64)
