"""The bar of a budget: parts, order, and what is left."""

from pathlib import Path

import pytest

from sfumato import viz
from sfumato.viz.theme import PALETTE


def test_parts_follow_each_other_and_the_rest_is_left() -> None:
    spec = viz.budget_bar({"ada": 1.0, "grace": 1.5}, 4, title="Budget").spec
    ends = [(part["name"], part["start"], part["end"]) for part in spec["data"]["values"]]
    assert ends == [("grace", 0.0, 1.5), ("ada", 1.5, 2.5), ("left", 2.5, 4.0)]
    assert spec["title"]["subtitle"] == "ε = 1.5 of 4 left (38 %)"


def test_one_number_is_one_part() -> None:
    parts = viz.budget_bar(0.25, 1, title="Budget").spec["data"]["values"]
    assert [(part["name"], part["amount"]) for part in parts] == [("spent", 0.25), ("left", 0.75)]


def test_no_more_parts_than_colours_and_nothing_is_lost() -> None:
    spent = {f"a{i}": float(i) for i in range(1, 21)}
    spec = viz.budget_bar(spent, 300, title="Budget").spec
    parts = spec["data"]["values"]
    assert len(parts) == len(PALETTE) + 1
    assert parts[-1]["start"] == pytest.approx(sum(spent.values()))
    colours = spec["encoding"]["color"]["scale"]
    assert len(colours["domain"]) == len(colours["range"]) == len(parts)


def test_more_than_the_cap_leaves_nothing() -> None:
    spec = viz.budget_bar(1.2, 1, title="Budget").spec
    assert spec["data"]["values"][-1]["amount"] == 0
    assert spec["encoding"]["x"]["scale"]["domain"] == [0, 1.2]


def test_shares_of_several_accounts_stay_within_the_bar() -> None:
    spec = viz.budget_bars({"patients": 0.4, "ada": 1.2, "new": -0.1}).spec
    assert [row["used"] for row in spec["data"]["values"]] == [0.4, 1.0, 0.0]


def test_bars_are_drawn(tmp_path: Path) -> None:
    assert viz.budget_bar(0.25, 1, title="Budget").save(tmp_path / "one.png").stat().st_size > 1000
    assert viz.budget_bars({"ada": 0.5}).save(tmp_path / "many.svg").stat().st_size > 1000


def test_a_burn_down_ends_a_little_after_its_last_charge() -> None:
    spec = viz.burn_down([0, 1, 2], [4.0, 3.5, 3.0], cap=4).spec
    points = [(point["charges"], point["left"]) for point in spec["data"]["values"]]
    assert points == [(0, 4.0), (1, 3.5), (2, 3.0), (2.5, 3.0)]
    assert spec["encoding"]["y"]["scale"]["domain"] == [0, 4]
