"""Copies of ordered mechanisms with too little noise, planted behind the curator: the catalogue catches each.

A replay has no false alarms: it compares the inputs of mechanisms and draws nothing of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfumato import audit
from sfumato.noise import Histograms, LaplaceNoise, QuantilesMechanism, RangeSums, Surroundings

ENTRIES = {each.name: each for each in audit.list_entries() if each.kind == "question"}


def halve(noise: Any) -> Any:
    return replace(noise, scale=noise.scale / 2)


def choose_sharply(mechanism: QuantilesMechanism, table: Histograms, **more: Any) -> Any:
    return HONEST["choices"](replace(mechanism, epsilon=2 * mechanism.epsilon), table, **more)


def count_sharply(mechanism: Surroundings, *inputs: Any) -> Any:
    return HONEST["counts"](replace(mechanism, noise=halve(mechanism.noise)), *inputs)


def sum_sharply(mechanism: RangeSums, *inputs: Any, **more: Any) -> Any:
    return HONEST["sums"](replace(mechanism, noise=halve(mechanism.noise)), *inputs, **more)


def add_little(noise: LaplaceNoise, *inputs: Any) -> Any:
    return HONEST["noise"](halve(noise), *inputs)


HONEST: dict[str, Any] = {
    "choices": QuantilesMechanism.release_groups,
    "counts": Surroundings.release,
    "sums": RangeSums.release_sums,
    "noise": LaplaceNoise.release_for,
}
PLANTED: list[tuple[str, Any, str, Any]] = [
    ("median", QuantilesMechanism, "release_groups", choose_sharply),
    ("quartiles", QuantilesMechanism, "release_groups", choose_sharply),
    ("medians of groups", Surroundings, "release", count_sharply),
    ("cumulative curve", RangeSums, "release_sums", sum_sharply),
    ("tuned bounds", LaplaceNoise, "release_for", add_little),
    ("tuned groups", LaplaceNoise, "release_for", add_little),
    ("tuned sum", LaplaceNoise, "release_for", add_little),
    ("chosen bounds", LaplaceNoise, "release_for", add_little),
]


@pytest.mark.parametrize(("entry", "kind", "method", "copy"), PLANTED, ids=[each[0] for each in PLANTED])
def test_a_copy_with_too_little_noise_is_caught(
    entry: str, kind: Any, method: str, copy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not ENTRIES[entry].audit().violates
    monkeypatch.setattr(kind, method, copy)
    assert ENTRIES[entry].audit().violates
