"""What was left after each charge is what the ledger said then."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.ledger.api import Charge
from sfumato.ledger.history import BudgetHistory, _AccountTrace, trace_budget
from sfumato.privacy.account import Allowance, price
from sfumato.privacy.events import Gaussian, Pure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.ledger.chain import Entry


def test_each_point_is_what_was_left_then(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    table = pa.table({"id": list(range(30)), "ward": ["A", "B", "C"] * 10})
    unit = sf.Unit("id", max_rows=1)
    lab.register(
        "visits", table, unit=unit, columns={"ward": sf.one_of("A", "B", "C")}, budget=sf.Budget(2, 1e-6)
    )
    seen = [lab.budget.accounts[0].left_epsilon]
    for epsilon in (0.1, 0.2, 0.3):
        lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=epsilon)
        seen.append(lab.budget.accounts[0].left_epsilon)
    points = trace_budget(lab.ledger, "population:id")
    assert [each.left_epsilon for each in points] == seen
    assert [each.charges for each in points] == [0, 1, 2, 3]
    assert points[0].day == ""
    assert all(len(each.day) == 10 for each in points[1:])


def test_runs_and_refunds_are_counted(tmp_path: Path) -> None:
    """A reservation counts whole, and what is given back no longer; other accounts are not counted."""
    lab = sf.create(tmp_path / "lab")
    ledger = lab.ledger
    for name in ("population:a", "population:b"):
        ledger.open_account(name, sf.Budget(4, 1e-6))
    seen = []

    def look() -> None:
        seen.append(trace_budget(ledger, "population:a")[-1].left_epsilon)

    def charge(account: str, event: object, request: str) -> Charge:
        return Charge((account,), price(event), request * 64, {"question": "q"})  # type: ignore[arg-type]

    run = ledger.reserve(charge("population:a", Gaussian(20.0), "1"), 10)
    look()
    ledger.charge(charge("population:b", Pure(1), "2"))
    look()
    ledger.draw(run, 4)  # type: ignore[arg-type]
    ledger.give_back(run)  # type: ignore[arg-type]
    look()
    ledger.charge(charge("population:a", Pure(1), "3"))
    look()
    assert seen[0] == seen[1] < seen[2]
    assert seen[3] < seen[2]
    assert len(trace_budget(ledger, "population:b")) == 2


@pytest.mark.parametrize(("charges", "most"), [(0, 40), (5, 3), (30, 20), (7, 2)])
def test_long_traces_are_thinned_and_keep_their_ends(tmp_path: Path, charges: int, most: int) -> None:
    ledger = sf.create(tmp_path / "lab").ledger
    ledger.open_account("population:a", sf.Budget(4))
    for at in range(charges):
        ledger.charge(Charge(("population:a",), price(Pure(0.01)), f"{at:064x}", {"question": "q"}))
    points = trace_budget(ledger, "population:a", most)
    assert len(points) <= max(2, most)
    assert (points[0].charges, points[-1].charges) == (0, charges)


def test_a_history_reads_each_entry_once_and_notices_another_ledger(tmp_path: Path) -> None:
    ledger = sf.create(tmp_path / "lab").ledger
    ledger.open_account("population:a", sf.Budget(4))
    history, looked = BudgetHistory(ledger), list[int]()
    read = ledger.read_entries

    def note(after: int = 0) -> Iterator[Entry]:
        looked.append(after)
        return read(after)

    ledger.read_entries = note  # type: ignore[method-assign]
    for at in range(3):
        ledger.charge(Charge(("population:a",), price(Pure(0.5)), f"{at:064x}", {"question": "q"}))
        assert history.trace("population:a")[-1].left_epsilon == 4 - 0.5 * (at + 1)
    assert history.count_entries() == list(read())[-1].seq
    assert looked[0] == 0
    assert all(looked[1:])
    other = sf.create(tmp_path / "other").ledger
    other.open_account("population:a", sf.Budget(4))
    history._ledger = other
    assert [each.left_epsilon for each in history.trace("population:a")] == [4]


def test_a_long_history_keeps_few_totals(tmp_path: Path) -> None:
    trace = _AccountTrace()
    for at in range(1, 5001):
        trace.add(at, "2026-01-01", price(Pure(Fraction(at, 10_000))))
    assert len(trace.kept) <= 160
    points = trace.list_points(Allowance.of(sf.Budget(4)), 40)
    assert len(points) <= 40
    assert (points[0].charges, points[-1].charges) == (0, 5000)
    assert points[-1].left_epsilon == 3.5
