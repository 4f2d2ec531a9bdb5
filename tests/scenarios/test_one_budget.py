"""Many processes, one budget: never one answer more than it allows."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import sfumato as sf
import warm

ALLOWED = 100


@pytest.mark.parametrize(("processes", "attempts"), [(4, 30), pytest.param(16, 10, marks=pytest.mark.slow)])
def test_all_processes_together_get_exactly_a_hundred_answers(
    small_lab: sf.Lab, processes: int, attempts: int
) -> None:
    script = Path(__file__).with_name("one_budget.py")
    with ThreadPoolExecutor(processes) as threads:
        commands = [[script, small_lab.folder, me, attempts] for me in range(processes)]
        answered = [int(done.stdout) for done in threads.map(partial(warm.run, check=True), commands)]
    assert sum(answered) == ALLOWED
    verified = small_lab.ledger.verify()
    assert verified.charges == verified.releases == ALLOWED
    assert small_lab.session().budget.accounts[0].left_epsilon == 0
