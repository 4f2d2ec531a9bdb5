"""Starts a process for each job, from one thread of each server process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.server.jobs.process import MEMORY, SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.server.jobs.store import JobStore, ServerJob

_COMMAND = "import sys; from sfumato.server.jobs.process import main; main(*sys.argv[1:])"
_LOOK_AGAIN = 0.5
"""Seconds between looks for jobs that other server processes have taken in, or that are left behind."""
_GRACE = 30.0
"""Seconds after its time is over that a job has to end by itself."""


class JobRunner:
    """Runs the jobs of a lab. Several server processes may each have one: a job is given to one of them."""

    def __init__(
        self,
        folder: Path,
        store: JobStore,
        *,
        most: int | None = None,
        memory: int = MEMORY,
        seconds: float = SECONDS,
    ) -> None:
        self._folder, self._store = folder, store
        self._most, self._memory, self._seconds = most or max(1, (os.cpu_count() or 1) // 2), memory, seconds
        self._called, self._ended = threading.Event(), threading.Event()
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look for jobs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sfumato-jobs", daemon=True)
            self._thread.start()

    def call(self) -> None:
        """Say that a job was added."""
        self._called.set()

    def close(self) -> None:
        """Start no more jobs. Those that run go on to their end, and any server finds what they leave."""
        self._ended.set()
        self._called.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        for process, _ in self._running:  # somebody has to take note of its end, if this server lives so long
            threading.Thread(target=process.wait, name=f"job process {process.pid}", daemon=True).start()

    def end_jobs(self) -> None:
        """End the processes of jobs that this runner started. What they charged stays charged."""
        for process, _ in self._running:
            process.kill()
            process.wait()

    def look_once(self) -> None:
        """Settle jobs whose process is gone, and start those that wait, as far as there is room."""
        self._reap()
        self._store.settle_dead()
        while self._store.count_waiting() and self._start_one():
            pass

    # ---- parts ----

    def _run(self) -> None:
        while not self._ended.is_set():
            self._called.clear()
            # Where a disk is busy or full, the jobs are still there at the next look.
            with suppress(SfumatoError, OSError):
                self.look_once()
            self._called.wait(_LOOK_AGAIN)

    def _start_one(self) -> bool:
        worker, descriptor = self._store.lock_worker()
        job = self._store.claim_job(worker, self._most)
        if job is None:
            self._store.release_worker(worker, descriptor)
            return False
        self._launch(job, worker, descriptor)
        return True

    def _launch(self, job: ServerJob, worker: str, descriptor: int) -> None:
        """Start the process of a job. It holds the worker's lock from then on."""
        arguments = [str(self._folder), job.id, worker, str(self._memory), str(self._seconds)]
        try:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and our own text
                [sys.executable, "-P", "-c", _COMMAND, *arguments],
                pass_fds=[descriptor],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server, and jobs outlive it
            )
        finally:
            os.close(descriptor)
        self._running.append((process, time.monotonic() + self._seconds + _GRACE))

    def _reap(self) -> None:
        for process, until in self._running:
            if process.poll() is None and time.monotonic() > until:
                process.kill()
        self._running = [(process, until) for process, until in self._running if process.poll() is None]
