"""What becomes of a job whatever happens in its process: one sentence for every failure."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ready_replies import share_workers
from serving import make_lab
from sfumato.curator.hostile.slots import SlotClock
from sfumato.errors import BudgetError
from sfumato.server.jobs import process
from sfumato.server.jobs.store import JobState, JobStore, ServerJob, write_cut_off

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.lab.lab import Lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    made = make_lab(tmp_path_factory.mktemp("jobs") / "clinic")
    share_workers(made, SlotClock())
    return made


def run(lab: Lab, key: str, analyst: str | None = "ada") -> ServerJob:
    """Keep a job, run it here, and return what became of it."""
    store = JobStore(lab.folder)
    job = store.add_job("ada", analyst, "fit", {}, key)
    worker, descriptor = store.lock_worker()
    claimed = store.claim_job(worker, 9)
    assert claimed is not None
    assert claimed.id == job.id
    process.run_job(lab, store, job.id, worker)
    os.close(descriptor)
    assert list(store.folder.glob("*.lock")) == []
    return store.find_job(job.id, None)


@pytest.mark.parametrize("problem", [MemoryError(), ValueError("a number"), RecursionError()], ids=repr)
def test_every_failure_says_the_same(lab: Lab, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def fail(_: object) -> None:
        raise problem

    monkeypatch.setattr(process, "run_task", fail)
    job = run(lab, repr(problem))
    assert (job.state, job.outcome) == (JobState.CUT_OFF, write_cut_off())
    assert write_cut_off()["code"] == "SF-W165"
    assert type(problem).__name__ in (lab.folder / "incidents.log").read_text()


def test_refusals_are_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BudgetError("SF-B101", "Not enough is left.", asked="ε = 9")

    monkeypatch.setattr(process, "run_task", refuse)
    job = run(lab, "refused")
    said = {"title": "Not enough is left.", "asked": "ε = 9", "kind": "BudgetError"}
    assert job.state is JobState.FAILED
    assert said.items() <= job.to_dict()["problem"].items()


def test_who_lost_the_quota_is_refused_before_the_job_begins(lab: Lab) -> None:
    job = run(lab, "nobody", "nobody")
    assert (job.state, job.begun) == (JobState.FAILED, False)
    assert job.outcome
    assert job.outcome["code"] == "SF-B103"


def test_memory_and_time_are_limited(tmp_path: Path) -> None:
    program = """
import time
from sfumato.server.jobs.process import end_after, limit_memory

limit_memory(2**26)
try:
    bytearray(2**30)
except MemoryError:
    print("limited", flush=True)
end_after(0.01)
time.sleep(600)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("limited\n", 1)
