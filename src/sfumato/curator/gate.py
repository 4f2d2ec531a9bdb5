"""The one door: price, charge, read, add noise, keep, answer. In that order, and only here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.curator.incidents import find_interrupt
from sfumato.errors import EngineError, SealedError
from sfumato.ledger import Released, failpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.incidents import Incidents
    from sfumato.curator.plan.priced import Plan, Step
    from sfumato.engines.program import Engine
    from sfumato.ledger import Charge, Charged, Ledger


def answer_plan(
    plan: Plan[Any, Any], charge: Charge, ledger: Ledger, engine: Engine, incidents: Incidents
) -> Released:
    """Charge a plan and answer it, or raise; what was answered before is given again for nothing."""
    # Durable before anything is read: whatever fails from here on, the charge stays.
    charged = ledger.charge(charge)
    if isinstance(charged, Released):
        return charged
    outcome = _attempt(plan, charged, ledger, engine, incidents)
    if isinstance(outcome, Released):
        return outcome
    if isinstance(outcome, BaseException):
        raise outcome
    # Raised outside of the attempt: no traceback may hold a frame with exact numbers.
    raise SealedError(
        "SF-X901",
        "The question was charged and could not be answered.",
        incident=outcome,
        try_="tell the steward the incident number",
    )


def _attempt(
    plan: Plan[Any, Any], charged: Charged, ledger: Ledger, engine: Engine, incidents: Incidents
) -> Released | str | BaseException:
    """Return the answer that was kept, the number of an incident, or an interrupt. No error leaves here."""
    try:
        answers: list[object] = []
        for step in plan.steps:
            exact = _run(engine, step, charged, ledger, first=not answers)
            failpoints.reach("data:read")
            answers.append(step.release(exact))
            failpoints.reach("noise:drawn")
        return ledger.release(charged, encode_answer(answers))
    except BaseException as error:  # an error message is a release too, so it goes to the steward alone
        incident = incidents.record()
        # Ctrl-C must end the loop that asks, or the loop goes on charging.
        return find_interrupt(error) or incident


def _run(engine: Engine, step: Step, charged: Charged, ledger: Ledger, *, first: bool) -> Any:
    """Return exact integers. If the engine could not be reached, a later attempt may use the charge."""
    try:
        return engine.run(step.program)
    except EngineError:
        # Nothing was read for this step, and for the first of them nothing was read at all.
        if first:
            ledger.note_unread(charged)
        raise


def encode_answer(answers: Sequence[object]) -> str:
    """Return the text that the ledger keeps: noisy integers and discovered keys, in plain lists."""
    return json.dumps(answers, separators=(",", ":"))


def decode_answer(text: str) -> list[Any]:
    """Return what each step released, from the text that the ledger keeps."""
    answers: list[Any] = json.loads(text)
    return answers
