"""Many processes, one budget: never one answer more than it allows."""

import subprocess
import sys
from pathlib import Path

import sfumato as sf

PROCESSES, ATTEMPTS, ALLOWED = 16, 10, 100


def test_sixteen_processes_get_exactly_a_hundred_answers(small_lab: sf.Lab) -> None:
    script = Path(__file__).with_name("one_budget.py")
    workers = [
        subprocess.Popen(
            [sys.executable, script, small_lab.folder, str(me), str(ATTEMPTS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(PROCESSES)
    ]
    answered = [int(worker.communicate(timeout=120)[0]) for worker in workers]
    assert sum(answered) == ALLOWED
    verified = small_lab.ledger.verify()
    assert verified.charges == verified.releases == ALLOWED
    assert small_lab.session().budget.accounts[0].left_epsilon == 0
