"""Ctrl-C after a charge: it comes through as itself, the charge stays, and the steward finds a note."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.interruption import interrupt_at

import sfumato as sf
from sfumato.engines.duckdb import run
from sfumato.errors.interrupts import find_interrupt
from sfumato.privacy.account import price
from sfumato.privacy.events import Pure

# One stream of numbers: of the product of two, one would first be kept, and that is stopped late.
ENDLESS = "SELECT count(*) FROM range(1000000000000000) WHERE range % 7 = 3"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=1)
    lab.register("visits", pa.table({"who": [1, 2]}), unit=unit, budget=sf.Budget(4))
    return lab


def _ask(lab: sf.Lab) -> Any:
    return lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1)


def _check_aftermath(lab: sf.Lab, raised: BaseException) -> None:
    assert lab.ledger.read_spent("population:who") == price(Pure(1))
    assert (lab.folder / "incidents.log").read_text().count("incident") == 1
    frames, place = [], raised.__traceback__
    while place is not None:
        frames.append(place.tb_frame.f_code.co_name)
        place = place.tb_next
    assert "answer_plan" in frames
    assert "_attempt" not in frames
    assert raised.__context__ is None


@pytest.mark.parametrize("restarts", [False, True], ids=["", "other handler"])
def test_ctrl_c_during_a_scan_comes_through(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """Also if a library such as Polars has installed a handler that restarts system calls."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever earlier tests have installed
    signal.siginterrupt(signal.SIGINT, not restarts)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))

    def interrupted_soon(*_: Any) -> str:
        # The scan never ends by itself, so the signal meets it whenever it comes.
        timer.start()
        return ENDLESS

    monkeypatch.setattr(run, "compile_program", interrupted_soon)
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            _ask(lab)
    finally:
        timer.cancel()  # if the scan fails, no later test is interrupted
        signal.signal(signal.SIGINT, before)
    _check_aftermath(lab, raised.value)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_error_of_cleaning_up_does_not_hide_it(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch, interrupt: BaseException
) -> None:
    def interrupted(*_: Any) -> Any:
        try:
            raise interrupt
        finally:
            # As drivers do whose connection is gone after the interrupt.
            raise ConnectionError("the connection is closed") from None

    monkeypatch.setattr(lab.engine, "run", interrupted)
    with pytest.raises(type(interrupt)) as raised:
        _ask(lab)
    assert raised.value.args == interrupt.args
    _check_aftermath(lab, raised.value)


def test_other_errors_are_no_interrupts() -> None:
    error = ValueError()
    error.__cause__ = KeyError()
    error.__cause__.__context__ = error
    assert find_interrupt(error) is None


def test_ctrl_c_while_another_thread_reads_leaves_no_lock_held() -> None:
    """Wherever it comes, a read that was begun is waited for, and nobody waits for ever."""
    place, interruption, said = 0, None, list[str]()

    def read() -> None:
        said.append("begun")
        time.sleep(0.001)
        said.append("over")

    while interruption is None or interruption.left <= 0:
        place += 1
        said.clear()
        with interrupt_at(run._ask, place) as interruption:
            run._ask(read, lambda: None)
        assert said in ([], ["begun", "over"])
    assert place > 9


def test_after_ctrl_c_in_a_read_the_process_can_still_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots, place, interruption = run.SNAPSHOTS, 0, None
    monkeypatch.setattr(run.Snapshots, "_cursor", lambda *_: None)
    entered = run.Snapshots.open_cursor.__wrapped__  # type: ignore[attr-defined]
    while interruption is None or interruption.left <= 0:
        place += 1
        with interrupt_at(entered, place) as interruption, snapshots.open_cursor({}, None):
            pass
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    assert place > 9
