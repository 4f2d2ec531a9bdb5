"""The lab that attacks are tried on: a real one, in a folder that is erased afterwards.

Trials stand side by side in one table. People of different worlds are different units, so one question that
is grouped by world is one trial in each of them, and costs what a single trial would.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.curator.catalog.columns import one_of
from sfumato.errors import StewardWarning
from sfumato.lab.lab import create
from sfumato.privacy.units import ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.lab.session import Session
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

Floats = NDArray[np.float64]


@contextmanager
def open_lab(
    rows: Mapping[str, Any], columns: Mapping[str, Any], budget: Budget, unit: Unit = ROW
) -> Iterator[Session]:
    """Register rows as the table "people" of a new lab, and give a session that spends its budget."""
    import pyarrow as pa

    with TemporaryDirectory() as folder:
        lab = create(Path(folder) / "lab")
        try:
            with warnings.catch_warnings():
                # Rows beyond max_rows are left out on purpose.
                warnings.simplefilter("ignore", StewardWarning)
                lab.register("people", pa.table(dict(rows)), unit=unit, columns=dict(columns), budget=budget)
            yield lab.session()
        finally:
            lab.close()


def list_values(count: int) -> Any:
    """Declare a column that holds 0, 1, … below a count, as every row's number of its world does."""
    return one_of(*range(count), missing=0)


def split_spend(epsilon: float, parts: int) -> float:
    """Return a part of ε, in whole millionths, so that all parts together are not above it."""
    return int(epsilon * 1_000_000 / parts) / 1_000_000


def ask_worlds(session: Session, select: str, epsilon: float, where: str = "") -> dict[str, Floats]:
    """Ask once for all worlds together; return each number of the answer, in the order of the worlds."""
    condition = f" WHERE {where}" if where else ""
    sql = f"SELECT world, {select} FROM people{condition} GROUP BY world"  # noqa: S608  parsed by us
    answer = session.sql(sql).release(epsilon=epsilon, include_empty=True).to_arrow()
    order = np.argsort(answer["world"].to_numpy())
    return {
        name: answer[name].to_numpy().astype(float)[order] for name in answer.column_names if name != "world"
    }
