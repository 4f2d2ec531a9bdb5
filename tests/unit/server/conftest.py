"""A clinic behind the server, one for all tests of a file that only read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from serving import ServedClinic, serve_clinic

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    """Yield a served clinic that tests of one file share."""
    with serve_clinic(tmp_path_factory.mktemp("served") / "clinic") as served:
        yield served
