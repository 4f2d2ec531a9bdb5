"""Surveys of a lab: the reports of two people with other truths, against what the ledger was charged."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.catalogue.scratch_labs import create_scratch_lab
from sfumato.audit.entry import run
from sfumato.privacy.events.tags import from_dict

if TYPE_CHECKING:
    from sfumato.audit.verdict import Verdict
    from sfumato.lab.lab import Lab
    from sfumato.lab.surveys.terms import SurveyTerms
    from sfumato.privacy.events import Event

_SAMPLES = 20_000
_ASKED: dict[str, tuple[tuple[str, ...], str]] = {
    "fair coin": (("Yes", "No"), "3 in 4"),
    "five choices": (("a", "b", "c", "d", "e"), "9 in 10"),
}


@cache
def _lab() -> Lab:
    return create_scratch_lab()


@cache
def _open_survey(name: str) -> tuple[SurveyTerms, Event]:
    """Return the terms of a survey, and the event that the ledger keeps as its price."""
    choices, level = _ASKED[name]
    survey = _lab().create_survey(name.replace(" ", "-"), question="?", choices=choices, epsilon=level)
    (body,) = (json.loads(each.body) for each in _lab().ledger.read_entries() if each.seq == survey.entry)
    return survey.terms, from_dict(body["about"]["event"])


def _attack(name: str, effort: int, alpha: float) -> Verdict:
    terms, charged = _open_survey(name)

    def reports(truth: int) -> Any:
        return lambda n: terms.mechanism.privatize(np.full(n, truth))

    found: Verdict = run((reports(0), reports(1)), charged, samples=effort * _SAMPLES, alpha=alpha)
    return found


def list_surveys() -> list[CatalogueEntry]:
    """Return an entry for the fair coin, and for a survey with several choices."""
    return [CatalogueEntry("survey", name, partial(_attack, name)) for name in _ASKED]
