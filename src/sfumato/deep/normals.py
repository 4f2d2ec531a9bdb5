"""Standard normal numbers in doubles, by the ziggurat of Marsaglia and Tsang.

The area below exp(−x²/2) for x ≥ 0 is covered by 1,024 layers of equal area. A layer is chosen, and a number
as far out as the layer reaches. Nearly always it lies where the layer is wholly below the curve, and is taken
as it is; for the others a height decides, and beyond the last layer an exponential tail. So a number costs a
word and two look-ups. Those whose height is above the curve are drawn anew, by the method of Box and Muller.
Doubles are taken as real numbers, as `docs/proofs/dp-sgd.md` says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.deep.words import SPARE, WordStream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LAYERS = 1024
_REACH = 4.038849846109504
"""Where the tail begins, such that all layers have the same area."""
CHUNK = 1 << 15
"""Numbers that are made at a time, so that all of it stays in the cache. Privacy does not depend on it."""


def _find_edges() -> Floats:
    """Return how far each layer reaches, the lowest first, and after them 0."""
    area = _REACH * math.exp(-(_REACH**2) / 2) + math.sqrt(math.pi / 2) * math.erfc(_REACH / math.sqrt(2))
    edges = [area / math.exp(-(_REACH**2) / 2), _REACH]
    while len(edges) < _LAYERS:
        edges.append(math.sqrt(-2 * math.log(area / edges[-1] + math.exp(-(edges[-1] ** 2) / 2))))
    return np.array([*edges, 0.0])


EDGES = _find_edges()
_HEIGHTS = np.exp(-(EDGES**2) / 2)
_STEPS = EDGES[:-1] * 2.0**-52
"""Widths of layers for words of 52 bits and a sign."""
_INNER = EDGES[1:].copy()
"""Up to where each layer is wholly below the curve."""


class NormalStream:
    """Independent normal numbers of one standard deviation, a chunk at a time.

    Most numbers of a chunk are there at once. Those that are not settled, about one in 240, count as zero
    until the end of the stream, where all of them are settled together.
    """

    def __init__(self, deviation: float) -> None:
        """Begin with a key of its own."""
        self._deviation = deviation
        self._words = WordStream()
        self._steps, self._inner = _STEPS * deviation, _INNER * deviation
        # Fresh memory costs as much as the numbers, so every chunk is made in the same places.
        self._room = np.empty(CHUNK + SPARE, np.uint64)
        self._layers = np.empty(CHUNK, np.int64)
        self._drawn, self._looked_up, self._sizes = (np.empty(CHUNK) for _ in range(3))
        none = np.empty(0, np.int64)
        self._left = [(none, none, np.empty(0))]
        self._given = 0

    def draw(self, count: int) -> Floats:
        """Return the next numbers, at most a chunk, which the next call overwrites."""
        drawn, layers, looked_up = self._drawn[:count], self._layers[:count], self._looked_up[:count]
        room = self._room[: count + SPARE]
        self._words.fill(room)
        words = room[:count].view(np.int64)
        np.bitwise_and(words, _LAYERS - 1, out=layers)
        # The upper 53 bits with a sign: the layer is made of others.
        np.copyto(drawn, np.right_shift(words, 11, out=words))
        drawn *= self._steps.take(layers, out=looked_up, mode="clip")
        self._inner.take(layers, out=looked_up, mode="clip")
        outside = np.flatnonzero(np.abs(drawn, out=self._sizes[:count]) >= looked_up)
        self._left.append((outside + self._given, layers[outside], drawn[outside]))
        drawn[outside] = 0
        self._given += count
        return drawn

    def settle(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the places in the stream of numbers that were left out, in order, and the numbers."""
        places, layers, drawn = (np.concatenate(each) for each in zip(*self._left, strict=True))
        return places, _settle(drawn / self._deviation, layers, self._words) * self._deviation


def _settle(drawn: Floats, layers: NDArray[np.int64], stream: WordStream) -> Floats:
    """Return numbers for those that lie where their layer is not wholly below the curve."""
    low, high = _HEIGHTS[layers], _HEIGHTS[layers + 1]
    below = low + (high - low) * _draw_uniform(len(drawn), stream) < np.exp(-(drawn**2) / 2)
    tail = layers == 0
    drawn[tail] = np.copysign(_draw_tail(int(tail.sum()), stream), drawn[tail])
    again = ~below & ~tail
    drawn[again] = _draw_by_angles(int(again.sum()), stream)
    return drawn


def _draw_by_angles(count: int, stream: WordStream) -> Floats:
    """Return normal numbers by the method of Box and Muller."""
    turns = 2 * np.pi * _draw_uniform(count, stream)
    found: Floats = np.sqrt(-2 * np.log(_draw_uniform(count, stream))) * np.cos(turns)
    return found


def _draw_tail(count: int, stream: WordStream) -> Floats:
    """Return normal numbers beyond the last layer, by rejection of exponential ones."""
    found = np.empty(0)
    while len(found) < count:
        beyond = -np.log(_draw_uniform(count, stream)) / _REACH
        kept = -2 * np.log(_draw_uniform(count, stream)) > beyond**2
        found = np.concatenate([found, _REACH + beyond[kept]])
    return found[:count]


def _draw_uniform(count: int, stream: WordStream) -> Floats:
    """Return numbers between 0 and 1, never 0, so that logarithms are finite."""
    return ((stream.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
