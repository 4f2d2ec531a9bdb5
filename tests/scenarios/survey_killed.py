"""Forks children that create or close a survey and die by SIGKILL at a named step; prints what each one saw.

One survey of another lab is made before the first fork, so that a child need not import anything.
"""

import json
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sfumato as sf
from sfumato.ledger import failpoints

folder = sys.argv[1]
CREATING = ("survey:drafted", "charge:written", "charge:durable", "survey:charged", "survey:opened")
CLOSING = ("survey:closing", "release:written", "release:durable", "survey:released")


def die_at(name: str) -> None:
    def step(reached: str) -> None:
        if reached == name:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.reach = step


def run(step: str, name: str) -> None:
    lab = sf.open(folder)
    if step in CREATING:
        die_at(step)
        lab.create_survey(name, question="Well?", epsilon="3 in 4", invitations=3, asks=1)
    else:
        made = lab.create_survey(name, question="Well?", epsilon="3 in 4", invitations=3, asks=1)
        invitation = lab.open_invitation(made.links[0])
        invitation.answer({"question": invitation.question()["law"]["id"], "round": 1, "report": 1})
        die_at(step)
        made.close()
    os._exit(3)  # not reached


with TemporaryDirectory() as elsewhere:
    warm = sf.create(Path(elsewhere) / "warm")
    warm.create_survey("warm", question="Well?", epsilon="3 in 4", invitations=3).close()
    warm.ledger.close()

for step in (*CREATING, *CLOSING):
    name = step.replace(":", "-")
    pid = os.fork()
    if pid == 0:
        run(step, name)
    _, status = os.waitpid(pid, 0)
    print(json.dumps({"step": step, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}))
