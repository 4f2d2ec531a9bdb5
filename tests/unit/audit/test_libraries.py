"""Measurements of opendp are recorded and answered alike on neighbours; nothing here is left to chance."""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp
import pytest
from benchmarks.peers.library_replay import replay_libraries

from sfumato.errors import UsageError

dp.enable_features("contrib")
ONE_MORE = [([0] * 3, [0] * 4)]


def noisy(value: int, scale: float = 1.0) -> int:
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    return int(dp.m.make_laplace(*space, scale=scale)(value))


@pytest.mark.parametrize(
    ("program", "finding"),
    [
        (lambda rows: noisy(len(rows)), None),
        (lambda rows: noisy(len(rows), 0.5), "costs ε = 2"),
        (lambda rows: [noisy(len(rows)), noisy(len(rows))], "costs ε = 2"),
        (lambda rows: noisy(3 * len(rows)), "costs ε = 3"),
        (lambda rows: [noisy(0)] * len(rows) if len(rows) > 3 else [], "call 1 differs"),
        (lambda rows: [] if len(rows) > 3 else [noisy(0)], "1 calls on one table and 0"),
        # What comes after depends on the answer, which both runs share.
        (lambda rows: noisy(len(rows), 2.0) > 3 and noisy(len(rows), 2.0), None),
    ],
)
def test_measurements_are_replayed(program: Any, finding: str | None) -> None:
    call = dp.Measurement.__call__
    found = replay_libraries(program, ONE_MORE, claim=1)
    assert dp.Measurement.__call__ is call
    assert found.finding is None if finding is None else finding in str(found.finding)


def test_a_program_without_their_noise_is_refused() -> None:
    with pytest.raises(UsageError, match="SF-A105"):
        replay_libraries(len, ONE_MORE, claim=1)
