"""The seed of a test reaches every draw of Python, in the processes that it starts too."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from seeded import seeded_bytes

import sfumato as sf
from ready_replies import SharedWorkers
from sfumato.curator.hostile.host import WorkerHost

torch = pytest.importorskip("torch")

SOURCES = {
    "os": lambda: os.urandom(8).hex(),
    "secrets": lambda: secrets.token_hex(8),
    "uuid": lambda: str(uuid.uuid4()),
    "random": lambda: str(random.random()),
    "numpy": lambda: str(np.random.default_rng().random()),
    "numpy, global": lambda: str(np.random.random()),
    "noise": lambda: str(sf.noise.laplace([0] * 8, sensitivity=1, epsilon=0.01).tolist()),
    "torch": lambda: str(torch.rand(4).tolist()),
}
PRINT = "import os, random; print(os.urandom(8).hex(), random.random())"


def draw_in_fork() -> str:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, os.urandom(8))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with open(reads, "rb") as pipe:
        return pipe.read().hex()


def draw_in_interpreter(environment: dict[str, str] | None = None) -> str:
    return subprocess.check_output([sys.executable, "-c", PRINT], env=environment, text=True)


DRAWS = {
    **SOURCES,
    "fork": draw_in_fork,
    "interpreter": draw_in_interpreter,
    "interpreter with an environment": lambda: draw_in_interpreter(dict(os.environ)),
}


@pytest.fixture(autouse=True)
def _needs_seeds(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--unseeded"):
        pytest.skip("these tests are about seeds")


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws_follow_from_the_name(draw) -> None:  # type: ignore[no-untyped-def]
    found = []
    for name in ("one", "one", "other"):
        with seeded_bytes(name):
            found.append([draw(), draw()])
    assert found[0] == found[1] != found[2]
    assert found[0][0] != found[0][1]


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_block_changes_nothing_that_is_drawn_after_it(draw) -> None:  # type: ignore[no-untyped-def]
    """Else a test would draw something else if it were the first to need a fixture that others share."""
    with seeded_bytes("outer"):
        expected = [draw() for _ in range(2)]
    with seeded_bytes("outer"):
        first = draw()
        with seeded_bytes("inner"):
            for each in DRAWS.values():
                each()
        assert [first, draw()] == expected


def test_the_process_that_forks_workers_changes_nothing_for_the_test_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for is_first in (True, False):
        with seeded_bytes("a test"), closing(WorkerHost(tmp_path, "")) as owner:
            if is_first:
                monkeypatch.setattr(SharedWorkers, "_owner", owner)
                SharedWorkers(tmp_path, "").start()
            found.append(draw_in_fork())
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def shared() -> bytes:
    return os.urandom(8)


def test_a_shared_fixture_has_its_own_seed(shared: bytes) -> None:
    with seeded_bytes("tests/unit/test_seeding.py shared 0"):
        assert os.urandom(8) == shared
