"""Budgets by blocks of time: newcomers have their own accounts, and lifetimes are shown beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.privacy.account import NOTHING

COLUMNS = {"day": sf.between(0, 39, step=1), "cost": sf.between(0, 10, step=0.5)}
VISITS = [(1, 0), (2, 1), (1, 1), (1, 3), (3, 3), (2, 4), (4, 5), (3, 6), (5, 7)]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., sf.Lab]:
    def made(budget: sf.Budget, block: sf.Budget) -> sf.Lab:
        lab = sf.create(tmp_path / "lab")
        who, day = zip(*VISITS, strict=True)
        table = pa.table({"who": who, "day": day, "cost": [1.0] * len(who)})
        lab.register("visits", table, unit=sf.Unit("who", max_rows=5), columns=COLUMNS, budget=budget)
        lab.set_blocks("visits", time="day", every=3, budget=block)
        return lab

    return made


def follow(lab: sf.Lab, analyst: str | None = None, **asked: Any) -> Any:
    stated: dict[str, Any] = {"time": "day", "measure": sf.count(), "horizon": 9, "participations": 2}
    return lab.session(analyst).stream("visits", blocks=True, **stated | asked)


def test_a_unit_counts_in_the_block_it_first_comes_in(make: Callable[..., sf.Lab]) -> None:
    lab = make(sf.Budget(1), sf.Budget(10**7, 1e-6))
    asked = follow(lab, rho=10**5)
    lab.set_through("visits", day=3)
    assert asked.run().values().tolist() == [1, 3, 3, 4]
    lab.advance("visits", lab_table(VISITS), through={"day": 8})
    again = follow(sf.open(lab.folder), rho=10**5)
    assert again.values().tolist() == [1, 3, 3, 4]
    # The first two came in days 0 to 2, the third and fourth in days 3 to 5, the fifth in days 6 to 8.
    assert again.run().values().tolist() == [1, 3, 3, 4, 4, 5, 5, 6, 6]
    assert len(again.half_widths()) == 9
    assert (np.diff(again.half_widths()[[2, 5, 8]]) > 0).all()
    assert [block.tick for block in again.blocks] == [3, 3, 3]
    assert again.blocks[-1].values(window=1).tolist() == [0, 1, 0]
    # One charge for each of three blocks and none for everyone; nine ticks.
    assert lab.verify().charges == 12
    assert lab.ledger.read_spent("population:who") == NOTHING


def lab_table(rows: list[tuple[int, int]]) -> pa.Table:
    who, day = zip(*rows, strict=True)
    return pa.table({"who": who, "day": day, "cost": [1.0] * len(who)})


def test_lifetimes_are_shown_beside_blocks_and_never_reset(make: Callable[..., sf.Lab]) -> None:
    lab = make(sf.Budget(2, 1e-6), sf.Budget(1, 1e-6))
    lab.set_through("visits", day=1)
    assert lab.budget.lifetimes[0].epsilon == 0
    asked = follow(lab, epsilon=0.5, delta=1e-7)
    assert not asked.quote().free
    asked.run()
    one = lab.budget.lifetimes[0].epsilon
    assert 0.4 < one < 0.9
    # A second block is for others: nobody is in both, so that a lifetime is what it was.
    lab.set_through("visits", day=5)
    asked.run()
    names = [account.name for account in lab.budget.accounts]
    assert names == ["population:who", *(f"population:who since 3 {day}" for day in (0, 3, 6))]
    shares = [account.left_share for account in lab.budget.accounts]
    assert shares[0] == shares[3] == 1
    assert shares[1] == shares[2] < 1
    assert lab.budget.lifetimes[0].epsilon == one
    # A second stream may count someone in another block, so both add up; and so does what everyone pays for.
    follow(lab, epsilon=0.3, delta=1e-7, participations=1).run()
    two = lab.budget.lifetimes[0].epsilon
    lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.5)
    assert one < two < lab.budget.lifetimes[0].epsilon
    assert "lifetime of one who" in str(lab.session().budget)
    assert lab.budget.to_dict()["lifetime:who"]["streams"] == 2
    with pytest.raises(SfumatoError, match="SF-B101"):
        follow(lab, epsilon=0.9, delta=1e-7).run()


def test_analysts_pay_from_quotas_on_later_populations(make: Callable[..., sf.Lab]) -> None:
    lab = make(sf.Budget(2, 1e-6), sf.Budget(1, 1e-6))
    lab.grant("ada", epsilon=0.6, delta=1e-6, later=True)
    lab.grant("bob", epsilon=0.6, delta=1e-6)
    lab.set_through("visits", day=4)
    asked = follow(lab, "ada", epsilon=0.5, delta=1e-7, start=6, horizon=3)
    with pytest.raises(PolicyError, match="SF-S104"):
        asked.quote()
    lab.set_through("visits", day=5)
    with pytest.raises(PolicyError, match="SF-B103"):
        follow(lab, "bob", epsilon=0.5, delta=1e-7, start=6, horizon=3).quote()
    lab.grant("bob", epsilon=0.6, delta=1e-6)
    assert follow(lab, "bob", epsilon=0.5, delta=1e-7, start=6, horizon=3).quote().admitted
    lab.set_through("visits", day=6)
    asked.run()
    assert lab.ledger.read_spent("quota:who since 3 6:ada") != NOTHING


def test_what_is_refused(make: Callable[..., sf.Lab]) -> None:
    lab = make(sf.Budget(1), sf.Budget(1, 1e-6))
    with pytest.raises(PolicyError, match="SF-S113"):
        lab.set_blocks("visits", time="day", every=4, budget=sf.Budget(1))
    for wrong in ({"time": "ward", "every": 3}, {"time": "day", "every": "month"}):
        with pytest.raises(UsageError, match="SF-S113"):
            lab.set_blocks("visits", budget=sf.Budget(1), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="SF-S103"):
        follow(lab, rho=0.1, measure=sf.units("who"), window=2).run()
    with pytest.raises(PolicyError, match="SF-S113"):
        follow(lab, rho=0.1, time="cost", start=0, horizon=3).run()


def test_a_block_begins_when_the_one_before_is_whole(make: Callable[..., sf.Lab]) -> None:
    """Otherwise whoever comes in both would be counted in both, for one lifetime."""
    lab = make(sf.Budget(1), sf.Budget(10**7, 1e-6))
    asked = follow(lab, rho=10**5)
    lab.set_through("visits", day=8)
    asked.run(1)
    with pytest.raises(PolicyError, match="SF-S104"):
        asked.blocks[1].run()
    assert asked.run().values().tolist() == [1, 3, 3, 4, 4, 5, 5, 6, 6]


def test_a_block_is_charged_with_its_first_tick(make: Callable[..., sf.Lab]) -> None:
    lab = make(sf.Budget(1), sf.Budget(10**7, 1e-6))
    asked = follow(lab, rho=10**5)
    lab.set_through("visits", day=8)
    assert asked.run(3).tick == 3
    assert lab.verify().charges == 4  # of one block and its three ticks
