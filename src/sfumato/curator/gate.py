"""The one door: price, charge, read, add noise, keep, answer. In that order, and only here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.errors import SealedError
from sfumato.ledger import Released, failpoints

if TYPE_CHECKING:
    from sfumato.curator.incidents import Incidents
    from sfumato.curator.plan.priced import Payable
    from sfumato.engines.program import Engine
    from sfumato.ledger import Charge, Charged, Ledger


def answer(plan: Payable, charge: Charge, ledger: Ledger, engine: Engine, incidents: Incidents) -> Released:
    """Answer a priced question, or say why not; a question answered before is given again for nothing."""
    charged = ledger.charge(charge)
    if isinstance(charged, Released):
        return charged
    outcome = _attempt(plan, charged, ledger, engine, incidents)
    if isinstance(outcome, Released):
        return outcome
    raise SealedError(
        "SF-X901",
        "The question was charged and could not be answered.",
        incident=outcome,
        try_="tell the steward the incident number",
    )


def _attempt(
    plan: Payable, charged: Charged, ledger: Ledger, engine: Engine, incidents: Incidents
) -> Released | str:
    """The answer, kept; or an incident's number. No error leaves, nor a frame that holds exact numbers."""
    try:
        answers = []
        for step in plan.steps:
            exact = engine.run(step.program)
            failpoints.reach("data:read")
            answers.append(step.release(exact))
            failpoints.reach("noise:drawn")
        return ledger.release(charged, encode(answers))
    except Exception:
        return incidents.record()


def encode(answers: list[Any]) -> str:
    """The text the ledger keeps: noisy integers and bought keys, in plain lists."""
    return json.dumps(answers, separators=(",", ":"))


def decode(text: str) -> list[Any]:
    answers: list[Any] = json.loads(text)
    return answers
