"""A real PostgreSQL database and a real Spark, started for the tests and stopped after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance import servers, spark_session


@pytest.fixture(scope="session")
def postgres() -> str:
    """The address of a database. Without a server the test is skipped."""
    return f"postgresql://postgres@/postgres?host={servers.running().folder}"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark on this machine. Without Spark or Java the test is skipped."""
    yield from spark_session.running()
