"""No entry tells how long a question took: order stays, times are gone, old chains verify."""

from __future__ import annotations

import io
import json
import re
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.ledger import Charge, Charged, chain
from sfumato.ledger.books import replay_entries
from sfumato.ledger.chain import GENESIS, Entry, hash_text, write_body
from sfumato.ledger.sqlite.ledger import SqliteLedger
from sfumato.privacy.account import ORDERS, Cost
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEOPLE = "population:people"
STEP = Cost(1, (1,) * len(ORDERS), 0)
CLOCK = re.compile(r"\d\d:\d\d")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger.create(tmp_path / "ledger.db")
    made.open_account(PEOPLE, Budget(1))
    yield made
    made.close()


def _ask(name: str) -> Charge:
    return Charge((PEOPLE,), STEP, hash_text(name), {"question": name})


def _run_everything(ledger: SqliteLedger) -> None:
    charged = ledger.charge(_ask("one"))
    assert isinstance(charged, Charged)
    ledger.release(charged, "[1]")
    reserved: Any = ledger.reserve(_ask("many"), 3)
    ledger.draw(reserved)
    ledger.give_back(reserved)


def _bodies(ledger: SqliteLedger) -> list[tuple[str, dict[str, Any]]]:
    exported = io.StringIO()
    ledger.export(exported)
    lines = [json.loads(line) for line in exported.getvalue().splitlines()]
    return [(line["kind"], json.loads(line["body"])) for line in lines if "body" in line]


def test_what_is_written_after_data_was_read_has_no_time(ledger: SqliteLedger) -> None:
    _run_everything(ledger)
    times = {kind: body.get("at") for kind, body in _bodies(ledger)}
    assert {kind for kind, at in times.items() if at is None} == {"release", "draw", "return"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", at) for at in times.values() if at is not None)


def test_nothing_in_an_export_is_a_time_of_day(ledger: SqliteLedger) -> None:
    _run_everything(ledger)
    exported = io.StringIO()
    ledger.export(exported)
    assert not CLOCK.search(exported.getvalue())


def test_a_slow_question_and_a_quick_one_leave_the_same_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random marks and commitments apart, minutes between charge and release is not seen."""
    seen = []
    for name, pace in (("quick", 1), ("slow", 600)):
        clock = count(1_792_368_000, pace)
        monkeypatch.setattr(chain.time, "time", partial(next, clock))
        ledger = SqliteLedger.create(tmp_path / name)
        ledger.open_account(PEOPLE, Budget(1))
        _run_everything(ledger)
        drawn = {"by", "commitment"}
        seen.append(
            [(kind, {k: v for k, v in body.items() if k not in drawn}) for kind, body in _bodies(ledger)]
        )
        ledger.close()
    assert seen[0] == seen[1]


def test_a_chain_with_times_to_the_second_still_holds(ledger: SqliteLedger) -> None:
    """What an older version wrote: each entry again, with a time in its body."""
    _run_everything(ledger)
    seq, head, old = 0, GENESIS, []
    for kind, body in _bodies(ledger):
        timed = write_body({**body, "at": "2026-01-01T00:00:00+00:00"})
        entry = Entry.make_next(seq, head, kind, timed)  # type: ignore[arg-type]
        seq, head = entry.seq, entry.hash
        old.append(entry)
    assert replay_entries(old).summarize().releases == ledger.verify().releases
