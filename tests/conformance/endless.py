"""A question of years, which only a drop or a limit ends, and a drop that ends it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.payer import Payer
from sfumato.engines.rows import Joined, Scan
from sfumato.errors import PolicyError, SealedError
from sfumato.ledger import failpoints
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 3000
TABLE = pa.table({"who": [1] * ROWS, "x": [1] * ROWS})
SAID: dict[str, Any] = {"unit": sf.Unit("who", max_rows=ROWS), "columns": {"x": sf.between(0, 9, step=1)}}


def finish(work: Callable[[], object]) -> None:
    """Do it, or fail where it would have waited for ever."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def plan_endless(lab: sf.Lab, name: str) -> Any:
    """A question about every four rows of a table's one unit, past the limits on work."""
    plan = lab.session().sql(f"SELECT COUNT(*) AS n FROM {name}").quote(epsilon=1).plan
    snapshot = lab.table(name).snapshot_name
    rows: Scan | Joined = Scan(snapshot, 0)
    for at in range(1, 4):
        rows = Joined(rows, Scan(snapshot, at), same_unit=True)
    (step,) = plan.steps
    endless = copy(plan)
    object.__setattr__(endless, "steps", (replace(step, program=replace(step.program, rows=rows)),))
    return endless


def check_drop_ends_questions(
    lab: sf.Lab, name: str, monkeypatch: pytest.MonkeyPatch, begun: Callable[[], object] = lambda: None
) -> None:
    """Drop a table while an endless question reads it: the drop is done, the charge stays, no other begins.

    `begun` returns once the engine is at work.
    """
    charged = Event()
    monkeypatch.setattr(failpoints, "reach", lambda name: charged.set() if name == "charge:durable" else None)
    plan = plan_endless(lab, name)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(Payer(lab, None).pay, plan, "endless")
        assert charged.wait(PATIENCE)
        begun()
        assert not asked.done()
        finish(lambda: lab.drop(name))
        with pytest.raises(SealedError, match="SF-X901"):
            asked.result()
    assert lab.ledger.read_spent("population:who") == plan.cost
    with pytest.raises(PolicyError, match="SF-C135"):
        Payer(lab, None).pay(plan, "endless")
    assert lab.ledger.read_spent("population:who") == plan.cost
