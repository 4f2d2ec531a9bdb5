"""Arrow arrays: as Arrow's own way makes them, but without pandas."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.arrow import build_array

DAYS = np.array(["1969-12-31", "2024-02-29"], dtype="M8[D]")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["a", "", "ß🙂", "b"], pa.string()),
        (["a", None, "c"], pa.string()),
        ([], pa.string()),
        ([True, False, True], pa.bool_()),
        ([True] * 9 + [None], pa.bool_()),
        ([2**62, -1, None], pa.int64()),
        ([0, 255], pa.uint8()),
        ([0, 65535], pa.uint16()),
        (np.arange(-3, 3), pa.int64()),
        (np.array([0.5, np.nan, -np.inf]), pa.float64()),
        ([0.5, None, float("nan")], pa.float64()),
        ([None, None], pa.float64()),
        ([None], pa.date32()),
        ([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)], pa.date32()),
        (DAYS, pa.date32()),
        (DAYS.astype("M8[s]") + 7, pa.timestamp("s")),
        ([datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 2, 29)], pa.timestamp("s")),
        (np.zeros(0), pa.float64()),
    ],
)
def test_an_array_is_what_arrow_would_make(cells: Any, kind: pa.DataType) -> None:
    found = build_array(cells, kind)
    found.validate(full=True)
    assert found.equals(pa.array(cells, kind, from_pandas=True))
