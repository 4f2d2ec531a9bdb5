"""Reports on generators of labelled rows: what was paid for what, and how samples are learnt from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sfumato as sf

pytest.importorskip("torch", reason="the extra 'torch' is not installed")

RNG = np.random.default_rng(4)
LABELS = np.repeat([0, 1], 300)
IMAGES = (0.5 * LABELS[:, None, None] + 0.2 * RNG.random((600, 4, 4))).clip(0, 1)
DECLARED: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "bounds": (0, 1), "classes": [0, 1]}


@pytest.mark.parametrize(
    "made",
    [
        sf.synth.Moments(**DECLARED),
        sf.synth.MERF(**DECLARED),
        sf.synth.Diffusion(**DECLARED, rows=600, steps=3, batch_size=60, warm_steps=3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_report_says_what_was_paid_for_what(made: Any) -> None:
    report = sf.synth.report_quality(made.fit(IMAGES, LABELS), rows=200)
    assert report.generator == type(made).__name__
    assert "samples" in report.pictures
    assert report.learning is not None
    assert [name for name, _, _ in made.quote_.parts]
    for _, share, buys in made.quote_.parts:
        assert 0 < share <= 1
        assert buys in str(report)
