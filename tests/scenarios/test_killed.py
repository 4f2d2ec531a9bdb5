"""kill −9 at every named step: no release without its charge, nothing lost, nothing refunded, chain valid."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

import sfumato as sf
import warm

CHARGED = ("charge:durable", "data:read", "noise:drawn", "release:written", "release:durable")


@pytest.mark.parametrize("rounds", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_every_step(small_lab: sf.Lab, rounds: int) -> None:
    script = Path(__file__).with_name("killed.py")
    done = warm.run([script, small_lab.folder, rounds], check=True)
    deaths = [json.loads(line) for line in done.stdout.splitlines()]
    assert Counter(death["signal"] for death in deaths) == {signal.SIGKILL: 7 * rounds}

    lab = sf.open(small_lab.folder)
    verified = lab.ledger.verify()
    assert verified.charges == len(CHARGED) * rounds
    assert verified.releases == rounds
    spent = lab.ledger.read_spent("population:patient_id").pure
    assert spent == len(CHARGED) * rounds * 10**9

    kept = lab.session().sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {6 * rounds}").release(epsilon=0.001)
    assert kept.receipt.replayed
    lost = lab.session().sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {2 * rounds}").release(epsilon=0.001)
    assert not lost.receipt.replayed
