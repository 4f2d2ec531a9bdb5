"""Charts of regret: a line and a dashed bound for each method, on logarithmic axes."""

from __future__ import annotations

import math

from sfumato import viz


def test_each_method_has_a_line_and_a_dashed_bound_of_its_colour() -> None:
    curves = {"one": ([1, 10, 100], [0.5, 0.2, 0.1], [1, 0.6, 0.3]), "other": ([1], [0.25], [1])}
    chart = viz.regret_curves(curves, title="Regret", subtitle="of two methods")
    rows = chart.spec["data"]["values"]
    assert chart.title == "Regret"
    assert len(rows) == 8
    assert {row["kind"] for row in rows if row["method"] == "one"} == {"measured", "bound"}
    assert chart.spec["encoding"]["color"]["scale"]["domain"] == ["one", "other"]


def test_lines_break_where_no_logarithm_can_be_shown() -> None:
    chart = viz.regret_curves({"one": ([1, 2, 3], [-0.1, 0.0, math.nan], [1, 1, 1])}, title="Regret")
    assert [row["regret"] for row in chart.spec["data"]["values"]] == [None] * 3 + [1.0] * 3
