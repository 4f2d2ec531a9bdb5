"""What parts of a table cost together: as often as neighbours can differ in them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf

if TYPE_CHECKING:
    from pathlib import Path

WARDS = sf.one_of("A", "B", "C")


def _charged(parts: Any) -> Fraction | None:
    epsilon: Fraction | None = parts.agg(n=sf.count()).quote(epsilon=1).epsilon
    return epsilon


def test_replacing_a_person_changes_the_part_they_leave_and_the_part_they_enter(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    source = pa.table({"ward": ["A", "A", "B"]})
    said: dict[str, Any] = {"unit": sf.ROW, "columns": {"ward": WARDS}, "budget": sf.Budget(epsilon=9)}
    lab.register("visits", source, neighbours=sf.REPLACE_ONE, rows=3, **said)
    assert _charged(lab.session().table("visits").partition("ward")) == 2


def test_parts_are_charged_by_the_promises_of_the_snapshot_that_is_read(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register(
        "visits",
        pa.table({"id": [1, 1, 2], "ward": ["A", "A", "B"]}),
        unit=sf.Unit("id", max_rows=2),
        columns={"ward": sf.one_of("A", "B", "C", constant=True)},
        budget=sf.Budget(epsilon=9),
    )
    parts = lab.session().table("visits").partition("ward")
    assert _charged(parts) == 1
    later = pa.table({"id": [1, 1, 2], "ward": ["A", "C", "B"]})
    lab.advance("visits", later, columns={"ward": WARDS})
    assert _charged(parts) == 2


def test_quantiles_are_of_the_groups_that_each_part_discovers(tmp_path: Path) -> None:
    """Groups of the first part say nothing about those of the second."""
    rows = pa.table(
        {
            "who": range(400),
            "ward": ["A"] * 200 + ["B"] * 200,
            "day": [5] * 200 + [900] * 200,
            "note": ["x"] * 200 + ["y"] * 200,
        }
    )
    columns = {"ward": sf.one_of("A", "B"), "day": sf.between(0, 1000, step=1), "note": sf.text()}
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=100, delta=1e-3)
    lab.register("t", rows, unit=sf.Unit("who", max_rows=1), columns=columns, budget=budget)
    parts = lab.session().table("t").partition("ward")
    found = parts.ask({key: parts[key].group_by("note").agg(day=sf.median("day")) for key in parts})
    released = found.release(epsilon=20, delta=1e-6)
    assert [each.to_arrow().to_pydict() for each in released.values()] == [
        {"note": ["x"], "day": [5]},
        {"note": ["y"], "day": [900]},
    ]
