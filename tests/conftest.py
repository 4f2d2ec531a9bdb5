"""What tests share: where the real data lies, and whether recorded texts are written anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the recorded texts anew")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets: SFUMATO_DATA, else `shared/data` beside the project."""
    named = os.environ.get("SFUMATO_DATA")
    return _found(Path(named) if named else ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def data_file(data_folder: Path) -> Callable[[str], Path]:
    """A file of the data folder by its name there, such as "adult/adult.data.gz"."""
    return lambda name: _found(data_folder / name)


def _found(path: Path) -> Path:
    """The path, if it is there. Its absence is a skip on a desk and a failure in continuous integration."""
    if path.exists():
        return path
    reason = f"REAL DATA IS MISSING, nothing was tested: no {path.name}; set SFUMATO_DATA to the data folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
