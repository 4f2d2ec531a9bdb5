"""An audit of runs that all fail in the same way shows nothing, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import audit, noise
from sfumato.errors import UsageError


def _fails(*given: Any) -> Any:
    raise ValueError("no answer")


def _noisy_then_fails(count: int) -> Any:
    noise.LaplaceNoise(2).release(np.array([count]))
    raise ValueError("no answer")


def test_a_black_box_that_never_answers_is_inconclusive() -> None:
    with pytest.raises(UsageError) as refused:
        audit.run((_fails, _fails), claim=1.0, samples=1000)
    assert refused.value.code == "SF-A105"


def test_a_replay_that_never_answers_is_inconclusive() -> None:
    with pytest.raises(UsageError) as refused:
        audit.replay(_noisy_then_fails, [(1, 2), (5, 6)], claim=1.0)
    assert refused.value.code == "SF-A105"


def test_errors_that_differ_are_findings() -> None:
    assert audit.run((_fails, lambda n: np.zeros(n)), claim=1.0, samples=1000).violates

    def program(count: int) -> Any:
        noise.LaplaceNoise(2).release(np.array([count]))
        raise ValueError(str(count))

    assert audit.replay(program, [(1, 2)], claim=1.0).violates
    answers = audit.replay(
        lambda count: None if count else _noisy_then_fails(count), [(0, 0), (1, 1)], claim=1.0
    )
    assert not answers.violates
