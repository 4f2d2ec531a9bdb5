"""Several server processes share the jobs of a lab: each job is started by one of them, and once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from sfumato.server.jobs import store as stores
from sfumato.server.jobs.runner import JobRunner
from sfumato.server.jobs.store import JobState, JobStore
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class NotingRunner(JobRunner):
    """A runner that notes what it starts, and ends it at once."""

    def __init__(self, folder: Path, started: list[str], most: int) -> None:
        super().__init__(folder, JobStore(folder), most=most)
        self.started = started

    def _launch(self, job: Any, worker: str, descriptor: int) -> None:
        self.started.append(job.id)
        self._store.finish(job.id, worker, JobState.DONE, {})
        os.close(descriptor)


def test_each_job_is_started_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_WAITING", 100)
    store, started = JobStore(tmp_path), list[str]()
    jobs = [store.add_job("ada", "ada", "fit", {}, str(number)).id for number in range(30)]
    runners = [NotingRunner(tmp_path, started, most=4) for _ in range(4)]
    threads = [threading.Thread(target=each.look_once) for each in runners]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert Counter(started) == Counter(jobs)


def test_a_runner_that_is_called_starts_what_was_added(tmp_path: Path) -> None:
    started: list[str] = []
    runner = NotingRunner(tmp_path, started, most=1)
    runner.start()
    try:
        job = runner._store.add_job("ada", "ada", "fit", {}, "k")
        runner.call()
        wait_until(lambda: runner._store.find_job(job.id, None).has_ended, "the job is started")
    finally:
        runner.close()
    assert started == [job.id]


def test_a_job_that_outlives_its_runner_is_nobodys_orphan(tmp_path: Path) -> None:
    """Python warns of a process that nobody waits for, and the end of one would leave a zombie."""
    runner = JobRunner(tmp_path, JobStore(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        runner._running.append((process, 0.0))
        runner.close()
        assert process.stdin is not None
        process.stdin.close()
        waits = f"job process {process.pid}"
        wait_until(lambda: waits not in [each.name for each in threading.enumerate()], "the process ends")
        assert process.returncode is not None  # somebody waited, and not this test
