"""Many processes, one budget: never one answer more than it allows."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import sfumato as sf

ALLOWED = 100


@pytest.mark.parametrize(("processes", "attempts"), [(4, 30), pytest.param(16, 10, marks=pytest.mark.slow)])
def test_all_processes_together_get_exactly_a_hundred_answers(
    small_lab: sf.Lab, processes: int, attempts: int
) -> None:
    script = Path(__file__).with_name("one_budget.py")
    with ExitStack() as stack:
        workers = []
        for me in range(processes):
            worker = subprocess.Popen(
                [sys.executable, script, small_lab.folder, str(me), str(attempts)],
                stdout=subprocess.PIPE,
                text=True,
            )
            workers.append(stack.enter_context(worker))
            stack.callback(worker.kill)
        answered = [int(worker.communicate()[0]) for worker in workers]
    assert sum(answered) == ALLOWED
    verified = small_lab.ledger.verify()
    assert verified.charges == verified.releases == ALLOWED
    assert small_lab.session().budget.accounts[0].left_epsilon == 0
