"""An engine that is down costs nothing, and a charge that read nothing is answered later, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import EngineError, SealedError, SfumatoError
from sfumato.ledger import Charge, Charged, failpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.privacy import Cost

COUNT = "SELECT COUNT(*) AS n FROM visits WHERE age > 60"
SUM = "SELECT SUM(age) AS n FROM visits"
PEOPLE = "population:patient_id"


def ask(lab: sf.Lab, epsilon: float = 0.1, sql: str = COUNT) -> Any:
    return lab.session().sql(sql).release(epsilon=epsilon)


def file_of(lab: sf.Lab) -> Path:
    return lab.folder / "snapshots" / f"{lab.table('visits').snapshot_name}.duckdb"


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], object]], None]:
    """Do something the first time that a failpoint is reached."""

    def once(name: str, work: Callable[[], object]) -> None:
        todo = [work]

        def reach(reached: str) -> None:
            if reached == name and todo:
                todo.pop()()

        monkeypatch.setattr(failpoints, "reach", reach)

    return once


def outages(lab: sf.Lab, times: int) -> None:
    """Take the snapshot away, damage it, and put it back, with questions in between."""
    file = file_of(lab)
    whole = file.read_bytes()
    for number in range(times):
        spent = lab.ledger.read_spent(PEOPLE)
        if number % 2:
            file.unlink()
        else:
            put(file, b"no database" * 1000)
        for _ in range(3):
            with pytest.raises(EngineError, match="SF-C221"):
                ask(lab, 0.001, f"SELECT COUNT(*) AS n FROM visits WHERE age > {number / 2}")
        assert lab.ledger.read_spent(PEOPLE) == spent
        put(file, whole)
        ask(lab, 0.001, f"SELECT COUNT(*) AS n FROM visits WHERE age > {number / 2}")
    assert lab.ledger.verify().charges == lab.ledger.verify().releases == times


def test_an_engine_that_is_down_costs_nothing(small_lab: sf.Lab) -> None:
    outages(small_lab, 6)


@pytest.mark.slow
def test_a_hundred_outages_cost_nothing(small_lab: sf.Lab) -> None:
    outages(small_lab, 100)


def test_a_kept_answer_needs_no_engine(small_lab: sf.Lab) -> None:
    answer = ask(small_lab).to_arrow()
    file_of(small_lab).unlink()
    assert ask(small_lab).to_arrow() == answer


def test_who_has_no_account_is_not_told_what_was_asked(small_lab: sf.Lab) -> None:
    small_lab.grant("ada", epsilon=1)
    session = small_lab.session("ada")
    people = pa.table({"who": [1], "age": [20]})
    columns = {"age": sf.between(0, 110)}
    small_lab.register(
        "others", people, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(epsilon=1)
    )
    (small_lab.folder / "snapshots" / f"{small_lab.table('others').snapshot_name}.duckdb").unlink()
    with pytest.raises(SfumatoError, match="SF-B103"):
        session.sql("SELECT COUNT(*) AS n FROM others").release(epsilon=0.1)


def test_a_charge_that_read_nothing_is_answered_once(small_lab: sf.Lab, once: Any) -> None:
    """The engine goes down after the charge and before the read, where a check comes too late."""
    file, away = file_of(small_lab), file_of(small_lab).with_suffix(".away")
    once("charge:durable", lambda: file.rename(away))
    with pytest.raises(SealedError, match="SF-X901"):
        ask(small_lab, 1)
    spent = small_lab.ledger.read_spent(PEOPLE)
    for _ in range(3):
        with pytest.raises(EngineError):
            ask(small_lab, 1)
    away.rename(file)
    answer = ask(small_lab, 1)  # the budget was spent by the first charge
    assert answer.receipt.to_dict()["entry"] == 4
    assert small_lab.ledger.read_spent(PEOPLE) == spent
    kinds = [entry.kind for entry in small_lab.ledger.read_entries()]
    assert kinds == ["lab", "account", "snapshot", "charge", "unread", "resume", "release"]
    assert sf.open(small_lab.folder).ledger.verify().releases == 1


def test_a_failure_after_a_read_keeps_the_charge_spent(small_lab: sf.Lab, once: Any) -> None:
    def fail() -> None:
        raise EngineError("SF-C221", "Away.")  # from a later step

    once("data:read", fail)
    with pytest.raises(SealedError):
        ask(small_lab, 0.5)
    assert "unread" not in {entry.kind for entry in small_lab.ledger.read_entries()}


def test_of_many_that_ask_again_one_is_answered_under_the_first_charge(small_lab: sf.Lab, once: Any) -> None:
    file, away = file_of(small_lab), file_of(small_lab).with_suffix(".away")
    once("charge:durable", lambda: file.rename(away))
    with pytest.raises(SealedError):
        ask(small_lab, 0.05)
    away.rename(file)
    labs = [sf.open(small_lab.folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda lab: ask(lab, 0.05).to_arrow(), labs))
    entries = [entry.kind for entry in small_lab.ledger.read_entries()]
    assert entries.count("resume") == 1
    # Whoever came before the answer was kept has paid for one of their own.
    assert entries.count("charge") == entries.count("release") <= len(answers)
    assert small_lab.ledger.verify().releases == entries.count("release")


def test_only_who_begins_a_charge_again_may_answer_it(small_lab: sf.Lab) -> None:
    ledger = small_lab.ledger
    cost = small_lab.session().sql(COUNT).quote(epsilon=0.1).plan.cost

    def priced(cost: Cost, request: str) -> Charge:
        return Charge((PEOPLE,), cost, request * 64, {}, neighbours="add-remove")

    charge = priced(cost, "0")
    first = ledger.charge(charge)
    assert isinstance(first, Charged)
    ledger.note_unread(first)
    for call in (ledger.note_unread, lambda charged: ledger.release(charged, "1")):
        with pytest.raises(SfumatoError, match="SF-L109"):
            call(first)
    again = sf.open(small_lab.folder).ledger.charge(charge)
    assert isinstance(again, Charged)
    assert (again.seq, again.cost) == (first.seq, first.cost)
    with pytest.raises(SfumatoError, match="SF-L109"):
        ledger.release(first, "1")
    assert not ledger.release(again, "1").replayed
    ledger.note_unread(_charged(ledger.charge(priced(cost, "1"))))
    dearer = _charged(ledger.charge(priced(cost * 2, "1")))
    assert dearer.seq > again.seq + 5  # a new price is charged anew


def _charged(charged: object) -> Charged:
    assert isinstance(charged, Charged)
    return charged


@pytest.mark.parametrize("sql", [SUM, f"{SUM} JOIN places ON place = id"])
def test_a_damaged_snapshot_is_charged_for_once(tmp_path: Path, sql: str) -> None:
    """A block that was changed on disk is noticed by whoever reads it first, and told to every process."""
    lab = sf.create(tmp_path / "lab")
    ages = np.random.default_rng(0).uniform(0, 110, 200_000)
    columns = {"age": sf.between(0, 110), "place": sf.between(0, 3, step=1)}
    rows = pa.table({"age": ages, "place": [number % 4 for number in range(200_000)]})
    lab.register("visits", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1))
    places = {"id": sf.between(0, 3, step=1), "size": sf.between(0, 9, step=1)}
    lab.register(
        "places", pa.table({"id": [0, 1, 2, 3], "size": [1, 2, 3, 4]}), unit=sf.PUBLIC, columns=places
    )
    file = file_of(lab)
    whole = file.read_bytes()
    for at in range(3 * 4096, len(whole), 2**18):  # each block begins with its checksum
        put(file, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        if outcome(lab, f"{sql} WHERE age > {at >> 18}") == "SF-X901":
            break
    spent = lab.budget.to_dict()
    for each in (lab, sf.open(lab.folder)):
        assert outcome(each, COUNT) == outcome(each, sql) == "SF-C221"
    assert lab.budget.to_dict() == spent
    assert [each.name for each in (lab.folder / "snapshots").glob("*.damaged")] == [f"{file.name}.damaged"]
    put(file, whole)
    assert outcome(lab, COUNT) == outcome(lab, sql) == "answered"


def put(file: Path, content: bytes) -> None:
    file.with_suffix(".new").write_bytes(content)
    file.with_suffix(".new").replace(file)


def outcome(lab: sf.Lab, sql: str) -> str:
    try:
        ask(lab, 0.001, sql)
    except SfumatoError as problem:
        return problem.code
    return "answered"
