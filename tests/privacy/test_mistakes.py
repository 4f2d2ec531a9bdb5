"""Known mistakes are caught: a sample of them on every run, and all in the slow suite.

Those of the sample differ by outcomes that one table has almost always and the other almost never, or are
found by a replay, so none is missed by chance.
"""

from __future__ import annotations

import pytest

from mistakes import MISTAKES, Mistake

SAMPLE = {
    "31-bit seed",
    "NaN injection",
    "domain by exact threshold",
    "ε for every bit",
    "early stopping on private rows",
    "half scale",
    "unprotected keys",
}
BOUNDS = {"Roth": 1.2, "Lee–Clifton": 2.5, "Stoddard": 9.5, "Chen": 3.4}


def test_the_gallery_is_large_and_names_its_sources() -> None:
    assert len(MISTAKES) >= 30
    assert len({each.name for each in MISTAKES}) == len(MISTAKES)
    assert all(each.source and each.wrong for each in MISTAKES)
    assert {each.name for each in MISTAKES} >= SAMPLE


@pytest.mark.parametrize(
    "mistake", [each for each in MISTAKES if each.name in SAMPLE], ids=lambda each: each.name
)
def test_a_mistake_is_caught(mistake: Mistake) -> None:
    assert mistake.audit().violates


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_every_mistake_is_caught(mistake: Mistake) -> None:
    found = mistake.audit()
    assert found.violates
    for name, least in BOUNDS.items():
        assert name not in mistake.name or found.lower_bound > least
