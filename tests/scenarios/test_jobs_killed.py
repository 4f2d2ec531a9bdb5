"""A job that is killed at any step is charged at most once, says so, and is never begun again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import sfumato as sf
import warm
from serving import make_lab
from sfumato.server.jobs.store import JobState, JobStore, write_cut_off

BODY = {
    "model": {"name": "CategoricalNB", "parameters": {"epsilon": 0.5}},
    "features": ["ward"],
    "target": "ill",
}
BEFORE = ("before mark_begun",)
FREE = ("after mark_begun", "charge:begun", "charge:written")
CHARGED = ("charge:durable", "release:begun", "release:written", "release:durable", "before finish")
DONE = ("after finish", "never")


def make_jobs(lab: sf.Lab, store: JobStore, steps: tuple[str, ...]) -> None:
    """Keep one job for each step, each about other rows, so that none finds an answer of another's."""
    for number, _ in enumerate(steps):
        rows = {"table": "visits", "steps": [["where", [f"age >= {number}"], {}]]}
        store.add_job("ada", "ada", "fit", {**BODY, "table": rows}, f"key {number}")


def run_killed(lab: sf.Lab, steps: tuple[str, ...]) -> dict[str, str]:
    """Run the jobs, each of which dies at its step; return which job met which."""
    script = Path(__file__).with_name("job_killed.py")
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = warm.run([script, lab.folder, *steps], env=env, check=True)
    return dict(line.split("\t") for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_job_that_is_killed(tmp_path: Path) -> None:
    steps = (*BEFORE, *FREE, *CHARGED, *DONE)
    lab = make_lab(tmp_path / "clinic")
    store = JobStore(lab.folder)
    make_jobs(lab, store, steps)
    jobs = run_killed(lab, steps)
    assert set(jobs) == set(steps)

    # A server that is started again settles what was left.
    store.settle_dead()
    found = {step: store.find_job(id_, None) for step, id_ in jobs.items()}
    for step, job in found.items():
        if step in BEFORE:
            assert job.state is JobState.WAITING
        elif step in DONE:
            assert job.state is JobState.DONE
        else:
            assert (job.state, job.outcome) == (JobState.CUT_OFF, write_cut_off())
        # Sent again under its key, it is the same job in the same state.
        assert store.add_job("ada", "ada", job.kind, job.body, job.key) == job

    charged = [step for step in steps if step in (*CHARGED, *DONE)]
    assert lab.verify().charges == len(charged)
    spent = lab.ledger.read_spent("population:patient_id").pure
    assert spent == len(charged) * 5 * 10**11

    # Only what had not begun is begun again.
    waiting = [job.id for step, job in found.items() if step in BEFORE]
    assert store.count_waiting() == len(waiting)
    again = run_killed(lab, ("never",))
    assert again == {"never": waiting[0]}
    assert store.count_waiting() == 0
    assert lab.verify().charges == len(charged) + 1
