"""The catalogue of everything that is shipped: no claim is broken.

A part of it runs here, the quickest; `sfumato audit` runs all. Each audit that samples calls a true claim
broken with probability 1e-11.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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
    "several averages",
    "median",
    "medians of groups",
    "quartiles",
    "cumulative curve",
    "tuned bounds",
    "tuned sum",
    "chosen bounds",
    "count over days",
    "mean over days",
    "fair coin",
    "KMeans",
    "LinearRegression",
    "LogisticRegression",
    "AutoClassifier",
    "objective perturbation, Gaussian",
    "output perturbation",
    "Marginals, pure ε",
    "Moments",
}


def test_every_kind_is_in_the_catalogue() -> None:
    kinds = {"mechanism", "question", "stream", "survey", "generator"}
    kinds |= ({"deep"} if find_spec("torch") else set()) | ({"learner"} if find_spec("sklearn") else set())
    assert {each.kind for each in ENTRIES} == kinds
    assert len({(each.kind, each.name) for each in ENTRIES}) == len(ENTRIES)


def test_every_generator_is_in_the_catalogue() -> None:
    names = [each.name for each in ENTRIES]
    for generator in ("Marginals", "Moments", *(("MERF", "Diffusion") if find_spec("torch") else ())):
        assert any(name.startswith(generator) for name in names)


def test_the_folder_of_the_lab_is_removed_with_the_process() -> None:
    """The catalogue's lab lies in a folder of its own, which the process takes away when it ends."""
    ask = "from sfumato.audit.catalogue import doors; print(doors._clinic().folder)"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    folder = Path(told.stdout.strip())
    assert folder.name == "lab"
    assert not folder.parent.exists()


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
