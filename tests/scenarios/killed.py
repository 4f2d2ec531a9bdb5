"""Forks children that ask one question each and die by SIGKILL at a named step; prints what each one saw.

One question is asked of another lab before the first fork, so that a child need not import anything.
"""

import json
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sfumato as sf
from sfumato.cli import clinic
from sfumato.ledger import failpoints

folder, rounds = sys.argv[1], int(sys.argv[2])
STEPS = (
    "charge:begun",
    "charge:written",
    "charge:durable",
    "data:read",
    "noise:drawn",
    "release:written",
    "release:durable",
)


def die_at(name: str) -> None:
    def step(reached: str) -> None:
        if reached == name:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.reach = step


def child(step: str, number: int) -> None:
    session = sf.open(folder).session()
    question = session.sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {number}")
    die_at(step)
    question.release(epsilon=0.001)
    os._exit(3)  # not reached: every question passes every step


with TemporaryDirectory() as elsewhere:
    warm = sf.create(Path(elsewhere) / "warm")
    warm.register("visits", clinic.visits(5, 9), unit=sf.ROW, budget=sf.Budget(1))
    warm.session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.1)
    warm.ledger.close()

for index, step in enumerate(STEPS):
    for turn in range(rounds):
        pid = os.fork()
        if pid == 0:
            child(step, index * rounds + turn)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"step": step, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}))
