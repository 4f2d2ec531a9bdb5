"""Nothing is kept between draws, so no two processes or threads can hold the same bits."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sfumato.noise.sampling.bits import OS

CHILDREN = """
import os, sys
from sfumato.noise.sampling.bits import OS

OS.words(1)
for _ in range(4):
    if os.fork() == 0:
        sys.stdout.write(OS.words(2).tobytes().hex() + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
print(OS.words(2).tobytes().hex())
"""


def test_forked_children_never_repeat_each_other() -> None:
    run = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True)
    drawn = run.stdout.split()
    assert len(drawn) == 5
    assert len(set(drawn)) == 5


def test_eight_threads_never_repeat_each_other() -> None:
    """4,000 words of 64 bits agree by chance with probability below 1e-12."""
    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(OS.words, [50] * 80)))
    assert len(np.unique(drawn)) == len(drawn) == 4000


def test_as_many_words_as_asked_for() -> None:
    assert [OS.words(count).shape for count in (0, 1, 7)] == [(0,), (1,), (7,)]
