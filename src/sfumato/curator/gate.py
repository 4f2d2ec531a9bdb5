"""The one door: price, charge, read, add noise, keep, answer. In that order, and only here."""

from __future__ import annotations

import json
import logging
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import SealedError
from sfumato.ledger import Charge, Ledger, Released, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.curator.plan import Plan
    from sfumato.engines.program import Engine

_steward_log = logging.getLogger("sfumato.steward")


def answer(plan: Plan, charge: Charge, ledger: Ledger, engine: Engine) -> Released:
    """Answer a priced question, or say why not; a question answered before is given again for nothing."""
    charged = ledger.charge(charge)
    if isinstance(charged, Released):
        return charged
    with sealed():
        exact = engine.run(plan.program)
        steps.step("data:read")
        noisy = [each.release(sums) for each, sums in zip(plan.measured, exact, strict=True)]
        steps.step("noise:drawn")
        return ledger.release(charged, encode(noisy))


@contextmanager
def sealed() -> Iterator[None]:
    """After the charge every failure says the same sentence; what it was goes to the steward's log only."""
    try:
        yield
    except Exception:
        incident = secrets.token_hex(8)
        _steward_log.exception("incident %s", incident)
        raise SealedError(
            "SF-X901",
            "The question was charged and could not be answered.",
            incident=incident,
            try_="tell the steward the incident number",
        ) from None


def encode(noisy: list[NDArray[Any]]) -> str:
    """The text the ledger keeps: noisy integers, a list a sum."""
    return json.dumps([sums.tolist() for sums in noisy], separators=(",", ":"))


def decode(text: str) -> NDArray[Any]:
    return np.array(json.loads(text), dtype=object)
