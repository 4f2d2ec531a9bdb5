"""Forks children that ask one question each and die by SIGKILL at a named step; prints what each one saw.

Everything is imported before the first fork and no lab is open across one, so a child costs milliseconds.
"""

import json
import os
import signal
import sys

import duckdb  # noqa: F401
import pyarrow  # noqa: F401
import sqlglot  # noqa: F401

import sfumato as sf
from sfumato.curator import release  # noqa: F401
from sfumato.engines import duckdb as engine  # noqa: F401
from sfumato.ledger import steps
from sfumato.queries import sql  # noqa: F401

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

    steps.step = step


def child(step: str, number: int) -> None:
    session = sf.open(folder).session()
    question = session.sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {number}")
    die_at(step)
    question.release(epsilon=0.001)
    os._exit(3)  # not reached: every question passes every step


for index, step in enumerate(STEPS):
    for turn in range(rounds):
        pid = os.fork()
        if pid == 0:
            child(step, index * rounds + turn)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"step": step, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}))
