"""Streams over tables: one charge, each tick once, first ticks of a unit, and what is refused."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.streams.door import ReleasedTick, StreamDoor
from sfumato.errors import BudgetError, PolicyError, SealedError, SfumatoError, UsageError
from sfumato.lab.session import Session
from sfumato.privacy.account import NOTHING

COLUMNS = {
    "day": sf.between(0, 39, step=1),
    "cost": sf.between(0, 10, step=0.5),
    "ward": sf.one_of("A", "B"),
}
RHO = 10.0**5
"""So much that rounding leaves no noise: what is counted is seen."""


def visits(*rows: tuple[int, int] | tuple[int, int, float, str]) -> pa.Table:
    """Visits as pairs of person and day, or with cost and ward."""
    full = [(*row, 1.0, "A")[:4] if len(row) == 2 else row for row in rows]
    who, day, cost, ward = zip(*full, strict=True) if full else ([], [], [], [])
    kinds = {"who": pa.int64(), "day": pa.int64(), "cost": pa.float64(), "ward": pa.string()}
    columns = zip((who, day, cost, ward), kinds.values(), strict=True)
    return pa.table(dict(zip(kinds, [pa.array(each, kind) for each, kind in columns], strict=True)))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., sf.Lab]:
    def made(table: pa.Table, max_rows: int = 5, budget: float = 10.0**7, **said: Any) -> sf.Lab:
        lab = sf.create(tmp_path / "lab")
        unit = said.pop("unit", sf.Unit("who", max_rows=max_rows))
        lab.register("visits", table, unit=unit, columns=COLUMNS, budget=sf.Budget(budget, 1e-6))
        return lab

    return made


def stream(lab: sf.Lab, **asked: Any) -> Any:
    stated = {"time": "day", "measure": sf.count(), "horizon": 6, "rho": RHO} | asked
    return lab.session().stream("visits", **stated)


def test_one_charge_for_all_ticks_and_replays_are_free(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0), (2, 0), (3, 2)), budget=20.0)
    asked = stream(lab, rho=0.5)
    quoted = asked.quote()
    assert not quoted.free
    assert lab.ledger.read_spent("population:who") == NOTHING
    assert "0 of 6 ticks released" in repr(asked)
    assert asked.list_rows() == []
    lab.set_through("visits", day=2)
    told = asked.run().values().tolist()
    spent = lab.ledger.read_spent("population:who")
    assert spent == quoted.plan.cost
    lab.advance("visits", visits((1, 0), (2, 0), (3, 2), (4, 3)), through={"day": 3})
    other = stream(sf.open(lab.folder), rho=0.5, measure="COUNT(*)")
    assert other.quote().free
    assert other.values().tolist() == told
    assert other.run().values().tolist()[:3] == told
    assert other.tick == 4
    assert asked.values().tolist() == other.values().tolist()
    assert lab.ledger.read_spent("population:who") == spent
    verified = lab.verify()
    assert (verified.charges, verified.releases) == (5, 5)


def test_a_unit_counts_in_its_first_ticks_far_enough_apart(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits(*((1, day) for day in range(5)), (2, 0), (2, 4)))
    lab.set_through("visits", day=5)
    assert stream(lab).run().values().tolist() == [2, 2, 2, 2, 2, 2]
    assert stream(lab, participations=3).run().values().tolist() == [2, 3, 4, 4, 5, 5]
    assert stream(lab, participations=3, separation=2).run().values().tolist() == [2, 2, 3, 3, 5, 5]


def test_old_ticks_stay_and_vanished_rows_still_count(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0), (1, 1), (2, 1)))
    asked = stream(lab, participations=2)
    lab.set_through("visits", day=1)
    assert asked.run().values().tolist() == [1, 3]
    # Late rows come into days that were released; the first person's past is gone.
    lab.advance("visits", visits((1, 2), (2, 0), (2, 2), (3, 0), (3, 2)), through={"day": 3})
    assert asked.run().values().tolist() == [1, 3, 5, 5]


def test_sums_means_and_groups(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0, 2.0, "A"), (2, 0, 6.0, "B"), (3, 1, 4.0, "A"), (4, 1, 99.0, "A")))
    lab.set_through("visits", day=1)
    told = stream(lab, measure=sf.sum("cost"), by="ward", horizon=2).run()
    assert told.groups == [("A",), ("B",)]
    np.testing.assert_allclose(told.values(), [[2, 6], [16, 6]], atol=0.5)
    mean = stream(lab, measure=sf.mean("cost"), horizon=2).run()
    np.testing.assert_allclose(mean.values(), [4, 5.5], atol=0.1)
    assert mean.half_widths().max() < 0.3
    np.testing.assert_allclose(told.values(window=1)[1], [14, 0], atol=0.5)
    np.testing.assert_allclose(told.values(decay=0.5)[1], [15, 3], atol=0.5)
    assert stream(lab, where="ward = 'B'", horizon=2).run().values().tolist() == [1, 1]
    contributions = stream(lab, contribution=2, where="cost > 1", horizon=2).run()
    assert contributions.values().tolist() == [2, 4]


def test_people_come_leave_and_return(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0), (2, 0), (1, 1), (1, 4), (3, 5), (2, 5)))
    lab.set_through("visits", day=7)
    so_far = stream(lab, measure=sf.units("who"), horizon=8).run()
    assert so_far.values().tolist() == [2, 2, 2, 2, 2, 3, 3, 3]
    present = stream(lab, measure=sf.units("who"), window=2, participations=2, horizon=8).run()
    assert present.values().tolist() == [2, 2, 1, 0, 1, 3, 2, 0]
    once = stream(lab, measure=sf.units("who"), window=2, horizon=8).run()
    assert once.values().tolist() == [2, 2, 1, 0, 0, 1, 1, 0]


def test_rows_that_are_units(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0), (1, 0), (1, 2)), unit=sf.ROW)
    lab.set_through("visits", day=2)
    assert stream(lab, horizon=3).run().values().tolist() == [2, 2, 3]
    with pytest.raises(UsageError, match="SF-S103"):
        stream(lab, participations=2)


def test_ticks_are_weeks_of_days_and_complete_as_whole_weeks(tmp_path: Path) -> None:
    from datetime import date

    lab = sf.create(tmp_path / "lab")
    table = pa.table({"who": [1, 2], "day": [date(2026, 1, 6), date(2026, 1, 13)]})
    days = sf.between(date(2026, 1, 1), date(2026, 12, 31))
    lab.register("visits", table, unit=sf.ROW, columns={"day": days}, budget=sf.Budget(10**7, 1e-6))
    asked = stream(lab, time="DATE_TRUNC('week', day)", start="2026-01-05", horizon=3)
    lab.set_through("visits", day="2026-01-17")
    assert asked.run().ticks() == [date(2026, 1, 5)]
    lab.set_through("visits", day=date(2026, 1, 18))
    assert asked.run().values().tolist() == [1, 2]


def test_what_is_secret_is_its_owners_alone_and_not_in_the_ledger(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0)))
    lab.set_through("visits", day=1)
    stream(lab).run()
    found = list((lab.folder / "streams").rglob("*"))
    files = [path for path in found if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [lab.folder / "streams", *(path for path in found if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    bodies = " ".join(entry.body for entry in lab.ledger.read_entries())
    assert "filters" not in bodies
    assert "high" not in bodies


def test_a_copy_with_an_older_state_goes_no_further(make: Callable[..., sf.Lab], tmp_path: Path) -> None:
    lab = make(visits((1, 0)))
    lab.set_through("visits", day=1)
    asked = stream(lab)
    asked.next()
    shutil.copytree(lab.folder / "streams", tmp_path / "older")
    told = asked.run().values().tolist()
    shutil.rmtree(lab.folder / "streams")
    lab.set_through("visits", day=3)
    with pytest.raises(PolicyError, match="SF-S105"):
        stream(lab).run()
    shutil.copytree(tmp_path / "older", lab.folder / "streams", dirs_exist_ok=True)
    with pytest.raises(PolicyError, match="SF-S105"):
        stream(lab).run()
    assert stream(lab).values().tolist() == told


def test_ticks_that_the_ledger_lacks_are_released_as_they_were_kept(
    make: Callable[..., sf.Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(visits((1, 0), (2, 1)))
    lab.set_through("visits", day=2)
    with monkeypatch.context() as patch:
        patch.setattr(StreamDoor, "_publish", lambda door, tick: ReleasedTick((), door._state.read().mark))
        assert stream(lab).run().tick == 0
    lab.advance("visits", visits((3, 0), (4, 0), (5, 0)), through={"day": 3})
    assert stream(lab).run().values().tolist() == [1, 2, 2, 2]
    assert lab.verify().charges == 5


def test_a_tick_that_fails_says_one_sentence_and_can_be_tried_again(
    make: Callable[..., sf.Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(visits((1, 0)))
    lab.set_through("visits", day=0)
    asked = stream(lab)
    with monkeypatch.context() as patch:
        patch.setattr(type(lab.engine), "run", lambda *_: 1 / 0)
        with pytest.raises(SealedError, match="SF-S111"):
            asked.run()
    assert asked.run().values().tolist() == [1]
    assert lab.verify().charges == 2


def test_an_analyst_pays_with_their_quota_and_others_read_for_free(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0)), budget=20.0)
    lab.set_through("visits", day=0)
    lab.grant("ada", epsilon=10, delta=1e-6)
    lab.grant("bob", epsilon=0.001)
    asked = {"time": "day", "measure": sf.count(), "horizon": 6, "rho": 0.1}
    with pytest.raises(BudgetError, match="SF-B102"):
        lab.session("bob").stream("visits", **asked).run()  # type: ignore[arg-type]
    told = lab.session("ada").stream("visits", **asked).run()  # type: ignore[arg-type]
    assert lab.ledger.read_spent("quota:who:ada") == lab.ledger.read_spent("population:who")
    read = lab.session("bob").stream("visits", **asked)  # type: ignore[arg-type]
    assert read.values().tolist() == told.values().tolist()
    assert json.dumps(read.to_dict())


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("SF-N109", {"rho": None, "epsilon": 1}),
    ("SF-S103", {"time": "ward"}),
    ("SF-S103", {"time": "day + 1"}),
    ("SF-S103", {"horizon": 41}),
    ("SF-S103", {"start": 38}),
    ("SF-S103", {"measure": sf.variance("cost")}),
    ("SF-S103", {"measure": sf.distinct("ward")}),
    ("SF-S103", {"measure": sf.median("cost")}),
    ("SF-S103", {"measure": "COUNT(*), SUM(cost)"}),
    ("SF-S103", {"measure": "COUNT(*) + 1"}),
    ("SF-S103", {"window": 3}),
    ("SF-S103", {"measure": sf.units("who"), "participations": 2}),
    ("SF-S103", {"by": "cost * cost * cost * cost * cost * cost"}),
    ("SF-S103", {"by": ["FLOOR(day / 1)", "FLOOR(cost * 2)", "day", "ward", "FLOOR(cost)"]}),
    ("SF-N104", {"horizon": 1.5}),
    ("SF-N105", {"start": float("nan")}),
]


def test_what_is_refused_costs_nothing(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0)))
    for code, asked in REFUSED:
        with pytest.raises(SfumatoError, match=code):
            stream(lab, **asked)
    assert lab.verify().charges == 0


def test_ticks_come_in_order_up_to_the_horizon(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0)))
    asked = stream(lab, horizon=2)
    with pytest.raises(PolicyError, match="SF-S104"):
        asked.next()
    lab.set_through("visits", day=7)
    assert asked.run().tick == 2
    with pytest.raises(PolicyError, match="SF-N604"):
        asked.next()
    with pytest.raises(PolicyError, match="SF-S103"):
        lab.set_through("visits", day=3)
    with pytest.raises(UsageError, match="SF-S103"):
        lab.set_through("visits", ward=3)
    with pytest.raises(PolicyError, match="SF-Q191"):
        # Nothing is asked of the slots, so none are opened.
        Session(lab, None, cast("Any", object())).stream(
            "visits", time="day", measure=sf.count(), horizon=2, rho=1
        )


# ---- changed declarations and copies -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("day", sf.between(0, 39, step=0.5)),
        ("day", sf.between(0, 39, step=1, missing=5)),
        ("ward", sf.one_of("B", "A")),
        ("cost", sf.between(0, 20, step=0.5)),
    ],
)
def test_other_declarations_are_another_stream(make: Callable[..., sf.Lab], column: str, kind: Any) -> None:
    """On another grid a row would come into a tick twice, and on another list counts would change places."""
    rows = visits((1, 4, 3.0, "A"), (2, 4, 3.0, "B"))
    lab = make(rows, unit=sf.ROW)
    lab.set_through("visits", day=4)
    asked = {"by": ["ward"], "measure": sf.sum("cost"), "where": "ward = 'A'"}
    stream(lab, **asked).run()
    lab.advance("visits", rows, columns={**COLUMNS, column: kind})
    assert not stream(lab, **asked).quote().free


def test_a_wider_time_is_the_same_stream(make: Callable[..., sf.Lab]) -> None:
    rows = visits((1, 4))
    lab = make(rows, unit=sf.ROW)
    lab.set_through("visits", day=4)
    told = stream(lab).run().values().tolist()
    lab.advance("visits", rows, columns={**COLUMNS, "day": sf.between(0, 79, step=1)})
    assert stream(lab).quote().free
    assert stream(lab).values().tolist() == told


def test_of_two_copies_that_run_at_once_one_goes_on(
    make: Callable[..., sf.Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of a folder may share one ledger: each would add noise of its own to the ticks of the other."""
    lab = make(visits((1, 0)))
    lab.set_through("visits", day=0)
    stream(lab, rho=0.5).run()
    lab.set_through("visits", day=5)
    mine = lab.folder / "streams"
    other = lab.folder / "streams of a copy"
    shutil.copytree(mine, other)
    publish = StreamDoor._publish

    def publish_late(door: Any, kept: Any) -> Any:
        """Let the other copy release its next tick just before this one does."""
        monkeypatch.setattr(StreamDoor, "_publish", publish)
        monkeypatch.setattr(sf.Lab, "streams_folder", property(lambda _: other))
        stream(lab, rho=0.5).run(ticks=1)
        monkeypatch.setattr(sf.Lab, "streams_folder", property(lambda _: mine))
        return publish(door, kept)

    monkeypatch.setattr(StreamDoor, "_publish", publish_late)
    with pytest.raises(SfumatoError, match="SF-S1"):
        stream(lab, rho=0.5).run()
    assert stream(lab, rho=0.5).tick == 2


def test_an_open_stream_shows_nothing_to_a_revoked_analyst(make: Callable[..., sf.Lab]) -> None:
    lab = make(visits((1, 0), (2, 1)))
    lab.grant("ana", epsilon=10.0**6, delta=1e-6)
    lab.set_through("visits", day=0)
    asked = {"time": "day", "measure": sf.count(), "horizon": 6, "rho": RHO}
    opened = lab.session("ana").stream("visits", **asked)
    assert opened.run().values().tolist() == [1]
    lab.revoke("ana")
    with pytest.raises(PolicyError, match="SF-B103"):
        opened.values()


def test_streams_that_can_still_be_asked_are_listed(make: Callable[..., sf.Lab]) -> None:
    rows = visits((1, 0, 2.0, "A"))
    lab = make(rows)
    lab.set_through("visits", day=0)
    stream(lab).run()
    stream(lab, measure=sf.sum("cost")).run()
    assert len(lab.session().streams()) == 2
    kept = {name: kind for name, kind in COLUMNS.items() if name != "cost"}
    lab.advance("visits", rows.drop_columns(["cost"]), columns=kept)
    assert len(lab.session().streams()) == 1
