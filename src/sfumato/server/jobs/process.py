"""What runs in the process of one job: limits on its memory and time, its work, and what becomes of it."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError, SfumatoError
from sfumato.lab.lab import open as open_lab
from sfumato.server.jobs.store import JobState, JobStore, write_cut_off, write_job_problem
from sfumato.server.jobs.tasks import JobWork, run_task

if TYPE_CHECKING:
    from sfumato.lab.lab import Lab

MEMORY = 4 * 2**30
"""Bytes that a job may take beside its libraries. It holds released numbers and no rows."""
_LOOK_AGAIN = 0.5
"""Seconds between looks whether the job was cancelled. Privacy does not depend on it."""
SECONDS = 4 * 3600.0
"""How long a job may take. It says no more than that the job was cut off."""


def main(folder: str, id_: str, worker: str, memory: str, seconds: str) -> None:
    """Run one job and end. The process holds the worker's lock, which it was started with."""
    end_after(float(seconds))
    store = JobStore(Path(folder))
    lab = open_lab(folder)
    limit_memory(int(memory))
    end_when_cancelled(Path(folder), id_, worker)
    try:
        run_job(lab, store, id_, worker)
    finally:
        lab.close()
        store.close()


def run_job(lab: Lab, store: JobStore, id_: str, worker: str) -> None:
    """Run a job that was given to this worker, and keep what becomes of it."""
    job = store.find_job(id_, None)
    # Whoever lost their quota since is refused here.
    try:
        hostile = lab.session(job.analyst, hostile=True)
        session = hostile.watch_rounds(lambda slot: store.note_round(id_, worker, slot))
        # Durable before anything is charged: from here on the job is never begun again.
        store.mark_begun(id_, worker)
        outcome, state = run_task(JobWork(store, job, session)), JobState.DONE
    except SfumatoError as problem:
        outcome, state = write_job_problem(problem), JobState.FAILED
    except Exception:
        # Why is for the steward alone: one sentence is said for every reason.
        lab.incidents.record()
        outcome, state = write_cut_off(), JobState.CUT_OFF
    with suppress(PolicyError):  # it was given up for dead meanwhile, and stays so
        store.finish(id_, worker, state, outcome)
    store.forget_worker(worker)


def limit_memory(memory: int) -> None:
    """Give this process so much memory beside what it began with. Workers that it starts set their own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        most, hard = pages * resource.getpagesize() + memory, resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def end_when_cancelled(folder: Path, id_: str, worker: str) -> None:
    """End this process, whatever it does, soon after its owner has cancelled the job."""

    def watch() -> None:
        store = JobStore(folder)
        while True:
            time.sleep(_LOOK_AGAIN)
            with suppress(SfumatoError, OSError):  # a disk that is busy is asked again
                if store.find_job(id_, None).state is JobState.CANCELLED:
                    store.forget_worker(worker)
                    os._exit(1)

    threading.Thread(target=watch, name="sfumato-cancelling", daemon=True).start()


def end_after(seconds: float) -> None:
    """End this process after so many seconds, whatever it does then."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
