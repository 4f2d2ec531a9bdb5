"""What a round of a survey costs the people who answer it, and how the ledger keeps it.

A survey is a population of its own. Replacing one person's truth changes the report of that person alone, so
a round costs what one report costs, however many people answer. It is charged once, before it is opened.
"""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.payer import population_account
from sfumato.errors import LedgerError
from sfumato.errors.numbers import format_number
from sfumato.ledger import Charge
from sfumato.privacy.account import NAT, price
from sfumato.privacy.budget import Budget
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.neighbours import REPLACE_ONE

if TYPE_CHECKING:
    from sfumato.lab.surveys.terms import SurveyTerms
    from sfumato.ledger import Ledger, Released

PREFIX = "survey "
"""How the name of the population of a survey's respondents begins."""


def respondents_account(survey: str) -> str:
    """Return the account that the respondents of a survey are protected by."""
    return population_account(f"{PREFIX}{survey}")


def is_of_survey(population: str) -> bool:
    """Return whether a population is that of a survey's respondents."""
    return population.startswith(PREFIX)


def open_budget(ledger: Ledger, terms: SurveyTerms) -> None:
    """Fix how much may ever be learnt about one respondent: the price of one report, times the rounds."""
    # Each charge is rounded up to the ledger's unit, and the last of the promised rounds has to fit.
    each = Fraction(math.ceil(terms.epsilon * NAT), NAT)
    ledger.open_account(respondents_account(terms.name), Budget.of(each * terms.asks), REPLACE_ONE.value)


def charge_round(ledger: Ledger, terms: SurveyTerms, identity: str, number: int) -> int:
    """Charge a round, durably, unless that was done before; return the number of its entry."""
    charge = _make_charge(terms, identity, number)
    # The identity is random and kept before the charge, so an open charge of this name is our own.
    charged = ledger.charge(charge, take_over=True)
    return charged.seq


def release_round(
    ledger: Ledger, terms: SurveyTerms, identity: str, number: int, counts: tuple[int, ...]
) -> Released:
    """Have the ledger keep the counts of a round that takes no more answers; return its receipt."""
    charge = _make_charge(terms, identity, number)
    open_ = ledger.find_charge(charge)
    if open_ is not None:
        return ledger.release(open_, json.dumps(list(counts), separators=(",", ":")))
    # Closing was cut off after this, or the ledger is not the one that the round was charged to.
    kept = ledger.find_release(charge.request)
    if kept is None:
        raise LedgerError(
            "SF-L132",
            f"The ledger does not have the charge of round {number} of '{terms.name}'.",
            try_="the ledger that the lab had when the round was opened",
        )
    return kept


def _make_charge(terms: SurveyTerms, identity: str, number: int) -> Charge:
    event = terms.mechanism.event()
    request = canonical_json(["survey", identity, number, terms.mechanism.question()["id"]])
    return Charge(
        accounts=(respondents_account(terms.name),),
        cost=price(event),
        request=hashlib.sha256(request.encode()).hexdigest(),
        about={
            "analyst": "",
            "question": terms.question,
            "survey": terms.name,
            "round": number,
            "spend": f"ε = {format_number(terms.epsilon)} for each person who answers",
            "event": event.to_dict(),
        },
        key=f"round {number} of survey {identity}",
        neighbours=REPLACE_ONE.value,
    )
