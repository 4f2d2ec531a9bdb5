"""System calls under SQLite fail, one after the other: what was told is kept, and nothing else is told."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import SqliteLedger
from sfumato.ledger.chain import hash_text
from sfumato.ledger.sqlite.audit import AuditedLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def failing_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(HERE / "faults.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("rounds", [20, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("what", "error"),
    [
        pytest.param("write", errno.ENOSPC, id="full"),
        pytest.param("write", errno.EROFS, id="read-only"),
        pytest.param("write", errno.EIO, id="write error"),
        pytest.param("sync", errno.EIO, id="sync error"),
    ],
)
def test_a_failing_disk(failing_disk: Path, tmp_path: Path, what: str, error: int, rounds: int) -> None:
    command = [sys.executable, str(HERE / "faulty.py"), str(tmp_path), what, str(error), str(rounds)]
    environment = {**os.environ, "LD_PRELOAD": str(failing_disk)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) == rounds
    assert all(run["lost"] == 0 and run["spent"] for run in runs)
    codes = {code for run in runs for code in run["codes"]}
    assert codes
    assert codes <= {"SF-C223", "SF-L106", "SF-L108"}
    assert sum(run["told"] > 0 for run in runs) > rounds // 4


@pytest.mark.slow
def test_a_thousand_flipped_bytes(
    path: Path, filled: SqliteLedger, ask: Callable[..., Charge], tmp_path: Path
) -> None:
    """Caught, or the ledger says what it said."""
    before = filled.verify()
    filled.close()
    sound, chance, caught = path.read_bytes(), random.Random(141421), 0
    copy = tmp_path / "copy.sqlite"
    for _ in range(1200):
        place, bit = chance.randrange(len(sound)), 1 << chance.randrange(8)
        copy.write_bytes(sound[:place] + bytes([sound[place] ^ bit]) + sound[place + 1 :])
        with suppress(LedgerError), closing(AuditedLedger.read(copy, missing=True, timeout=0)) as ledger:
            assert ledger.verify() == before
            found = ledger.find_release(hash_text("first"))
            assert found is not None
            assert found.answer == "answer to first\nin two lines"
            continue
        caught += 1
    assert caught > 100
