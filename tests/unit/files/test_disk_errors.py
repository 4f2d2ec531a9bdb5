"""Errors of a disk that is full, closed or failing have codes, wherever they come from."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DiskError
from sfumato.files.disk_errors import name_disk_errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "SF-C223"),
        (errno.EDQUOT, "SF-C223"),
        (errno.EROFS, "SF-C224"),
        (errno.EACCES, "SF-C224"),
        (errno.EIO, "SF-C224"),
    ],
)
def test_errors_of_a_disk_have_codes(number: int, code: str) -> None:
    with pytest.raises(DiskError, match=code), name_disk_errors():
        raise OSError(number, os.strerror(number))


def test_other_errors_pass_through() -> None:
    with pytest.raises(FileNotFoundError), name_disk_errors():
        raise FileNotFoundError(errno.ENOENT, "no such file")


def register_without_room(lab: sf.Lab, rows: int) -> str:
    """Register where files cannot grow beyond 100 kB, as on a full disk, and return what was said."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    rng = np.random.default_rng(0)
    table = pa.table({"who": rng.integers(0, 9999, rows), "x": rng.uniform(0, 1, rows)})
    unit, columns = sf.Unit("who", max_rows=9), {"x": sf.between(0, 1)}
    try:
        lab.register("t", table, unit=unit, columns=columns, budget=sf.Budget(epsilon=1))
    except DiskError as problem:
        return problem.code
    return "registered"


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    child = os.fork()
    if child == 0:
        os._exit(0 if register_without_room(lab, 200_000) == "SF-C223" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not lab.tables()
    assert not [path for path in (lab.folder / "snapshots").rglob("*") if path.is_file()]
