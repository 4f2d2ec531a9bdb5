"""Shared by tests of the server: one clinic for each file, and passwords that are hashed quickly."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import argon2
import pytest

from serving import ServedClinic, serve_clinic

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords with 8 KiB instead of 64 MiB, which would take 0.1 s each."""
    quick = partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argon2, "PasswordHasher", quick)
        yield


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    """Yield a served clinic that tests of one file share."""
    with serve_clinic(tmp_path_factory.mktemp("served") / "clinic") as served:
        yield served
