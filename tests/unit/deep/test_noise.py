"""Noise: words that nobody repeats, normal numbers of the right shape, and nothing left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.deep import noise, words  # noqa: E402
from sfumato.deep.noise import add_normals  # noqa: E402
from sfumato.deep.normals import EDGES  # noqa: E402
from sfumato.deep.words import FRESH, WordStream  # noqa: E402


def _draw(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return add_normals([torch.zeros(count, dtype=torch.float64)], 1.0)[0].numpy()


def test_layers_have_the_same_area() -> None:
    """A layer between two edges has the area of what it covers; the lowest one is cut as wide as its area."""
    heights = np.exp(-(EDGES**2) / 2)
    areas = EDGES[:-1] * np.diff(heights, prepend=0)[1:]
    lowest = EDGES[1] * heights[1] + math.sqrt(math.pi / 2) * math.erfc(EDGES[1] / math.sqrt(2))
    np.testing.assert_allclose(areas[1:], lowest, rtol=1e-9)
    np.testing.assert_allclose(EDGES[0] * heights[1], lowest, rtol=1e-12)
    assert len(EDGES) == 1025


def test_the_whole_shape_is_normal() -> None:
    """Every test fails by chance once in 10¹⁰ runs: that is the p-value it allows."""
    from scipy import stats

    drawn = _draw(400_000)
    assert stats.kstest(drawn, "norm").pvalue > 1e-10
    for edge in (0.2, EDGES[2], EDGES[1], 4.0):
        tail = int((np.abs(drawn) > edge).sum())
        assert stats.binomtest(tail, len(drawn), 2 * stats.norm.sf(edge)).pvalue > 1e-10
    beyond = np.abs(drawn[np.abs(drawn) > EDGES[1]])
    assert stats.kstest(beyond, lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(EDGES[1])).pvalue > 1e-10
    neighbours = drawn[1:] * drawn[:-1]
    assert stats.norm.sf(abs(neighbours.mean()) * math.sqrt(len(neighbours))) * 2 > 1e-10


def test_streams_do_not_repeat() -> None:
    """64-bit words agree by chance once in 10¹⁰ such runs."""
    streams = [WordStream() for _ in range(2)]
    found = [each.words(10_000) for each in streams for _ in range(2)] + [FRESH.words(100), FRESH.words(10)]
    together = np.concatenate(found)
    assert len(np.unique(together)) == len(together) == 40_110


def test_a_stream_gives_more_words_than_it_was_made_for() -> None:
    """The cipher has so many zeros at a time; what comes of them goes on without a gap."""
    found = WordStream().words(40_003)
    assert found.shape == (40_003,)
    assert len(np.unique(found)) == 40_003


def test_bits_may_come_from_the_operating_system_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "Cipher", None)
    assert len(np.unique(WordStream().words(400))) == 400
    assert np.isfinite(_draw(300)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_every_number_gets_noise_of_its_own_in_doubles(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "CHUNK", 1_000)
    monkeypatch.setattr(noise, "_EACH", 1_000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    sums = [torch.zeros(shape, dtype=torch.float64) for shape in ((3,), (50, 70), (1,), (0,), (40, 40), ())]
    sums[1] = sums[1].T
    noisy = add_normals(sums, 1.0)
    assert [each.shape for each in noisy] == [each.shape for each in sums]
    moved = torch.cat([each.flatten() for each in noisy]).numpy()
    # Two numbers agree by chance once in 2⁶¹ pairs: the same layer of the ziggurat, the same 53 bits.
    assert len(np.unique(moved)) == len(moved)
    assert (moved != moved.astype(np.float32)).any()
    assert 0 < np.abs(moved).max() < 9


def test_sums_keep_their_precision() -> None:
    assert add_normals([torch.ones(5)], 1.0)[0].dtype == torch.float32
    assert add_normals([torch.zeros(3, dtype=torch.bfloat16)], 1.0)[0].isfinite().all()
    assert _draw(0).shape == (0,)
