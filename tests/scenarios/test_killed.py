"""kill −9 at every named step: no release without its charge, nothing lost, nothing refunded, chain valid."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import sfumato as sf

ROUNDS = 50
CHARGED = ("charge:durable", "data:read", "noise:drawn", "release:written", "release:durable")


def test_killed_at_every_step(small_lab: sf.Lab) -> None:
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, script, small_lab.folder, str(ROUNDS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    deaths = [json.loads(line) for line in done.stdout.splitlines()]
    assert Counter(death["signal"] for death in deaths) == {signal.SIGKILL: 7 * ROUNDS}

    lab = sf.open(small_lab.folder)
    verified = lab.ledger.verify()
    assert verified.charges == len(CHARGED) * ROUNDS
    assert verified.releases == ROUNDS
    spent = lab.ledger.read_spent("population:patient_id").pure
    assert spent == len(CHARGED) * ROUNDS * 10**9

    kept = lab.session().sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {6 * ROUNDS}").release(epsilon=0.001)
    assert kept.receipt.replayed
    lost = lab.session().sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {2 * ROUNDS}").release(epsilon=0.001)
    assert not lost.receipt.replayed
