"""Random numbers that modules and augmentations draw for rows: nobody may know them beforehand.

Which of them a row gets depends on how many rows of its batch come before it. So a seed that somebody knows
would let one unit move the gradients of all others.

Because : docs/proofs/dp-sgd.md#proof
"""

from __future__ import annotations

import random
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


def seed_in_secret() -> None:
    """Seed the generators of torch, NumPy and Python that modules draw from, by the operating system.

    It is done for every part of a batch, so that it does not matter who seeds them elsewhere, also in other
    threads.
    """
    seed = secrets.randbits(63)
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed >> 31)
    random.seed(seed)


@contextmanager
def keep_random_states() -> Iterator[None]:
    """Leave the generators as they were found when the block ends."""
    of_numpy, of_python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)
