"""The catalogue of everything that is shipped: no claim is broken.

A part of it runs here, the quickest; `sfumato audit` runs all. Each audit that samples calls a true claim
broken with probability 1e-11.
"""

from __future__ import annotations

import pytest

from sfumato import audit
from sfumato.audit.catalogue import CatalogueEntry

ALPHA = 1e-11
ENTRIES = audit.list_entries()
QUICK = {
    "LaplaceNoise, fine",
    "GaussianNoise",
    "QuantileMechanism",
    "ModeMechanism",
    "TruncatedGeometric",
    "ThresholdedNoise, Gaussian",
    "SubsetResponse",
    "MeanResponse",
    "count",
    "groups",
    "median",
    "count over days",
    "fair coin",
    "KMeans",
    "Marginals, pure ε",
}


def test_every_kind_is_in_the_catalogue() -> None:
    assert {each.kind for each in ENTRIES} >= {"mechanism", "question", "stream", "survey", "generator"}
    assert len({(each.kind, each.name) for each in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize(
    "entry", [each for each in ENTRIES if each.name in QUICK], ids=lambda each: each.name
)
def test_a_claim_holds(entry: CatalogueEntry) -> None:
    found = entry.audit(alpha=ALPHA)
    assert not found.violates, found


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.name)
def test_every_claim_holds(entry: CatalogueEntry) -> None:
    found = entry.audit(effort=10, alpha=ALPHA)
    assert not found.violates, found
