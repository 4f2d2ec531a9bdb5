"""Forks children that run one job each and die by SIGKILL at a named step, in a lab whose jobs wait.

The steps of the ledger are its failpoints; those of the job are calls of its store. A child that is asked to
die at no step runs its job to the end.
"""

import os
import signal
import sys
from pathlib import Path

import sfumato as sf
from ready_replies import reply_at_once
from sfumato.ledger import failpoints
from sfumato.server.jobs.process import run_job
from sfumato.server.jobs.store import JobStore

folder, steps = Path(sys.argv[1]), sys.argv[2:]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str) -> None:
    def reach(reached: str) -> None:
        if reached == step:
            die()

    failpoints.reach = reach
    # "before" a call of the store dies in its place, "after" it once it has returned.
    when, _, name = step.partition(" ")
    if when in ("before", "after"):
        inner = getattr(JobStore, name)

        def call(*arguments: object) -> object:
            if when == "after":
                inner(*arguments)
            die()

        setattr(JobStore, name, call)


def run(step: str) -> None:
    store, lab = JobStore(folder), sf.open(folder)
    reply_at_once(lab)
    worker, _ = store.lock_worker()
    job = store.claim_job(worker, 1000)
    print(step, job.id if job else "", sep="\t", flush=True)
    die_at(step)
    if job is not None:
        run_job(lab, store, job.id, worker)
    lab.close()
    os._exit(0)


import sfumato.learn  # noqa: E402  imported once, before the forks

# One after the other: a ledger's writer may carry the charges of others, and those would not pass its steps.
for step in steps:
    child = os.fork()
    if child == 0:
        run(step)
    os.waitpid(child, 0)
