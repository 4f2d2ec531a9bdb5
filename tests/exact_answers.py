"""Answers without noise: every mechanism gives its exact input, by the hook for auditors.

What is compared then went the whole way of a release: SQL in, priced, charged, read, computed after the
noise, shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from sfumato.curator.answers import answer, post_processing
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.noise import ExtremeMechanism, GaussianNoise, LaplaceNoise, ModeMechanism
from sfumato.noise.audit_hook import MechanismCall, recording
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.noise.ordered.quantiles import QuantilesMechanism


class Exact:
    """Gives what a mechanism was given: sums as they are, quantiles as plain SQL defines them, every key."""

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        match call.mechanism:
            case LaplaceNoise() | GaussianNoise() | JointNoise():
                return np.asarray(call.exact)
            case QuantilesMechanism(shares=shares):
                return np.array([_choose(call.exact, float(share)) for share in shares])
            case ExtremeMechanism(highest=highest):
                return _choose(call.exact, 1.0 if highest else 0.0)
            case ModeMechanism():
                return call.exact.counts(0, call.exact.groups).argmax(axis=1)
        return draw()


def _choose(table: Any, share: float) -> np.ndarray:
    """The cell of every group at this share of its rows, between two as plain SQL; 0 in empty groups."""
    counts = np.ones(len(table.places)) if table.before is None else np.diff(table.before)
    rows = np.repeat(table.places.astype(np.int64), counts.astype(np.int64))
    groups = [rows[rows // table.cells == group] % table.cells for group in range(table.groups)]
    return np.array([int(np.quantile(each, share)) if len(each) else 0 for each in groups])


@contextmanager
def without_noise() -> Iterator[None]:
    """Release exact sums, whose intervals then say only how far they may be off for other reasons.

    Intervals are computed when they are asked for, so ask inside.
    """
    with (
        recording(Exact()),
        mock.patch.object(answer, "noise_laws", _without_laws(answer.noise_laws)),
        mock.patch.object(answer, "level_laws", _without_laws(answer.level_laws)),
        mock.patch.object(answer.PoolEstimates, "join_laws", _without_laws(answer.PoolEstimates.join_laws)),
        mock.patch.object(post_processing, "likely_range", _range_without_noise),
    ):
        yield


def _without_laws(laws: Callable[..., tuple[NoiseLaw, ...]]) -> Callable[..., tuple[NoiseLaw, ...]]:
    return lambda *of: (NoiseLaw.of(None),) * len(laws(*of))


def _range_without_noise(sums: Any, laws: Any, computed: Any, confidence: float) -> Any:
    """The ends of a number of which only one draw of the noise exists, which is zero."""
    low, high = (end[:, 0] for end in computed({at: numbers[:, None] for at, numbers in sums.items()}))
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)
