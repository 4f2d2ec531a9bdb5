"""The one door: price, charge, read, add noise, keep, answer. In that order, and only here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.errors import EngineError, SealedError
from sfumato.errors.interrupts import find_interrupt
from sfumato.ledger import Released, failpoints
from sfumato.ledger.api import Reserved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.incidents import Incidents
    from sfumato.curator.plan.priced import Plan, Step
    from sfumato.engines.program import Engine
    from sfumato.ledger import Charge, Charged, Ledger

    Read = Callable[[Sequence[Step]], str]
    """Reads what steps ask for, here or in another process, and returns the noisy answers as text."""


def answer_plan(
    plan: Plan[Any, Any], charge: Charge, ledger: Ledger, read: Read, incidents: Incidents
) -> Released:
    """Charge a plan and answer it, or raise; what was answered before is given again for nothing."""
    # Durable before anything is read: whatever fails from here on, the charge stays.
    charged = ledger.charge(charge)
    return charged if isinstance(charged, Released) else answer_charge(plan, charged, ledger, read, incidents)


def answer_charge(
    plan: Plan[Any, Any], charged: Charged, ledger: Ledger, read: Read, incidents: Incidents
) -> Released:
    """Answer a plan that is charged, or raise the one sentence that says nothing."""
    outcome = _attempt(plan, charged, ledger, read, incidents)
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
    plan: Plan[Any, Any], charged: Charged, ledger: Ledger, read: Read, incidents: Incidents
) -> Released | str | BaseException:
    """Return the answer that was kept, the number of an incident, or an interrupt. No error leaves here."""
    try:
        return ledger.release(charged, _read(plan, charged, ledger, read))
    except BaseException as error:  # an error message is a release too, so it goes to the steward alone
        incident = incidents.record()
        # Ctrl-C must end the loop that asks, or the loop goes on charging.
        return find_interrupt(error) or incident


def _read(plan: Plan[Any, Any], charged: Charged, ledger: Ledger, read: Read) -> str:
    """Return noisy answers. If the engine could not be reached, a later attempt may use the charge."""
    try:
        return read(plan.steps)
    except NothingReadError:
        # A run of stretches stays open by itself, and whoever goes on draws another stretch.
        if not isinstance(charged, Reserved):
            ledger.note_unread(charged)
        raise


class NothingReadError(Exception):
    """The engine could not be reached, so no row was read for any step. This follows from public facts."""


def read_steps(steps: Sequence[Step], engine: Engine) -> str:
    """Read what the steps ask for and add noise: the text that the ledger keeps."""
    answers: list[object] = []
    found = 0
    for step in steps:
        try:
            exact = engine.run(step.program)
        except EngineError as problem:
            # Nothing was read for this step, and for the first of them nothing was read at all.
            raise problem if answers else NothingReadError from problem
        failpoints.reach("data:read")
        # A step about keys that were discovered waits for those that may be shown, of the same question.
        found = len(answers) if getattr(step, "discovers_keys", False) else found
        after = getattr(step, "release_after", None)
        answers.append(step.release(exact) if after is None else after(answers[found:], exact))
        failpoints.reach("noise:drawn")
    return encode_answer(answers)


def encode_answer(answers: Sequence[object]) -> str:
    """Return the text that the ledger keeps: noisy integers and discovered keys, in plain lists."""
    return json.dumps(answers, separators=(",", ":"))


def decode_answer(text: str) -> list[Any]:
    """Return what each step released, from the text that the ledger keeps."""
    answers: list[Any] = json.loads(text)
    return answers
