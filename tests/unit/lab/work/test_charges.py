"""Charges for other tools' releases: durable, refused where the budget ends, and verified by anyone."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, PolicyError, SfumatoError, UsageError
from sfumato.lab.work.charges import parse_foreign_release
from sfumato.ledger import failpoints
from sfumato.privacy import price
from sfumato.privacy.divergences import Curve

ROOT = Path(__file__).parents[4]
ROWS = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
EVENTS = (
    sf.privacy.Pure(0.25),
    sf.privacy.Laplace(scale=8),
    sf.privacy.Gaussian(sigma=4),
    sf.privacy.ApproxDP(0.1, 1e-9),
    sf.privacy.Concentrated(rho=0.01),
    sf.privacy.Repeated(sf.privacy.Sampled(sf.privacy.Gaussian(sigma=2), 0.01), 500),
    sf.privacy.Sequential([sf.privacy.Pure(0.1), sf.privacy.Gaussian(sigma=9)]),
    sf.privacy.RenyiCurve([(4, 0.01), (32, 0.1)]),
    sf.privacy.PrivacyProfile([(0.1, 1e-8), (0.3, 1e-10)]),
    sf.privacy.DiscreteGaussian(20, 2),
)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    unit = sf.Unit("who", 1, "patients")
    lab.register("visits", ROWS, unit=unit, columns=columns, budget=sf.Budget(4, 1e-6))
    replaced = {"neighbours": sf.REPLACE_ONE, "rows": 3, "budget": sf.Budget(4)}
    lab.register("smokers", ROWS, unit=sf.ROW, columns=columns, **replaced)
    lab.grant("ada", epsilon=1)
    return lab


def spend(lab: sf.Lab, event: Any, **more: Any) -> Any:
    return lab.charge(event, **{"population": "patients", "about": "an Opacus run of March"} | more)


def spent(lab: sf.Lab, account: str = "population:patients") -> Any:
    return lab.ledger.read_spent(account)


def verdict(lab: sf.Lab) -> str:
    """What the verifier that imports nothing of sfumato says about an export."""
    export = lab.folder.parent / "export.jsonl"
    with open(export, "w", encoding="utf-8") as file:
        lab.ledger.export(file)
    script = ROOT / "tools" / "verify_ledger.py"
    done = subprocess.run([sys.executable, script, export], capture_output=True, text=True, check=False)
    return done.stdout


def test_every_kind_of_event_is_charged_at_its_price_and_shown(lab: sf.Lab) -> None:
    total = sf.privacy.NOTHING
    for event in EVENTS:
        charged = spend(lab, event)
        total = total + price(event)
        assert spent(lab) == total
        assert not charged.replayed
    listed = sf.open(lab.folder).charges()
    assert [each.event for each in listed] == list(EVENTS)
    assert {each.about for each in listed} == {"an Opacus run of March"}
    assert "an Opacus run of March" in next(
        each.summarize() for each in lab.ledger.read_entries() if each.seq == listed[0].entry
    )
    # Nothing looks as if it had been charged and cut off.
    assert f"{len(EVENTS)} of {len(EVENTS)} charges answered" in str(lab.verify())
    assert f"{len(EVENTS)} of {len(EVENTS)} charges answered" in verdict(lab)


def test_a_charge_counts_against_questions_and_is_refused_at_the_end(lab: sf.Lab) -> None:
    spend(lab, sf.privacy.Pure(3.9))
    with pytest.raises(BudgetError) as refused:
        spend(lab, sf.privacy.Pure(0.2))
    assert refused.value.code == "SF-B101"
    with pytest.raises(BudgetError):
        lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.2)
    assert spent(lab) == price(sf.privacy.Pure(3.9))
    assert len(lab.charges()) == 1


def test_a_quota_pays_too_and_all_or_nothing(lab: sf.Lab) -> None:
    spend(lab, sf.privacy.Pure(0.9), analyst="ada")
    assert spent(lab) == spent(lab, "quota:patients:ada") == price(sf.privacy.Pure(0.9))
    with pytest.raises(BudgetError, match="SF-B102"):
        spend(lab, sf.privacy.Pure(0.2), analyst="ada")
    with pytest.raises(PolicyError, match="SF-B103"):
        spend(lab, sf.privacy.Pure(0.2), analyst="eve")
    assert spent(lab) == price(sf.privacy.Pure(0.9))


def test_a_key_is_charged_once_and_stands_for_one_release(lab: sf.Lab) -> None:
    first = spend(lab, sf.privacy.Pure(0.5), key="march")
    again = sf.open(lab.folder).charge(
        sf.privacy.Pure(0.5), population="patients", about="an Opacus run of March", key="march"
    )
    assert (again.entry, again.replayed) == (first.entry, True)
    for other in ({"event": sf.privacy.Pure(0.1)}, {"about": "an OpenDP table"}):
        with pytest.raises(PolicyError, match="SF-L204"):
            spend(lab, **{"event": sf.privacy.Pure(0.5), "key": "march"} | other)
    spend(lab, sf.privacy.Pure(0.5), key="april")
    spend(lab, sf.privacy.Pure(0.5))
    spend(lab, sf.privacy.Pure(0.5))  # two runs with equal settings are two releases
    assert spent(lab) == price(sf.privacy.Pure(0.5)) * 4


def test_threads_with_one_key_are_charged_once(lab: sf.Lab) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: spend(lab, sf.privacy.Pure(0.5), key="k").entry, range(16)))
    assert len(set(found)) == 1
    assert spent(lab) == price(sf.privacy.Pure(0.5))
    assert lab.verify().releases == 1


def test_a_call_that_comes_between_charge_and_release_is_told_the_same(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = []

    def call_again(name: str) -> None:
        if name == "charge:durable":
            monkeypatch.setattr(failpoints, "reach", lambda name: None)
            inner.append(spend(lab, sf.privacy.Pure(0.5), key="k"))

    monkeypatch.setattr(failpoints, "reach", call_again)
    outer = spend(lab, sf.privacy.Pure(0.5), key="k")
    assert inner[0].entry == outer.entry
    assert (lab.verify().charges, lab.verify().releases) == (1, 1)


def test_a_crash_after_the_charge_is_finished_by_the_same_key(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(name: str) -> None:
        if name == "charge:durable":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", crash)
        with pytest.raises(KeyboardInterrupt):
            spend(lab, sf.privacy.Pure(0.5), key="march")
    assert lab.verify().releases == 0
    finished = sf.open(lab.folder).charge(
        sf.privacy.Pure(0.5), population="patients", about="an Opacus run of March", key="march"
    )
    assert finished.replayed
    assert (lab.verify().charges, lab.verify().releases) == (1, 1)
    assert spent(lab) == price(sf.privacy.Pure(0.5))


def test_neighbours_are_compared_and_never_converted(lab: sf.Lab) -> None:
    pure = sf.privacy.Pure(0.5)
    with pytest.raises(PolicyError, match="SF-N303"):
        spend(lab, pure, neighbours=sf.REPLACE_ONE)
    with pytest.raises(PolicyError, match=r"sf\.privacy\.group\(event, 2\)"):
        spend(lab, pure, population="smokers")
    spend(lab, sf.privacy.group(pure, 2), population="smokers", neighbours=sf.REPLACE_ONE)
    assert spent(lab, "population:smokers").pure == price(sf.privacy.Pure(1)).pure
    with pytest.raises(UsageError, match="SF-N303"):  # Poisson samples are for adding and removing
        spend(lab, EVENTS[5], population="smokers", neighbours=sf.REPLACE_ONE)
    with pytest.raises(UsageError, match="SF-N118"):
        spend(lab, pure, neighbours="add-remove")
    assert spent(lab) == sf.privacy.NOTHING


@dataclass(frozen=True, slots=True)
class Cheap(sf.privacy.Event):
    """An event of a caller's own, which claims to cost less than nothing."""

    tag: ClassVar[str] = "pure"
    epsilon: Fraction = Fraction(4)

    def pure(self) -> Fraction:
        return Fraction(-1)

    def curve(self) -> Curve:
        return lambda order: -1.0


def test_a_class_of_the_callers_states_no_price(lab: sf.Lab) -> None:
    charged = spend(lab, Cheap())
    assert charged.event == sf.privacy.Pure(4)
    assert spent(lab) == price(sf.privacy.Pure(4))


ODD_EVENTS = (
    lambda: sf.privacy.NonPrivate(),
    lambda: sf.privacy.Pure(math.inf),
    lambda: sf.privacy.Pure(math.nan),
    lambda: sf.privacy.Pure(-1),
    lambda: sf.privacy.Gaussian(0),
    lambda: sf.privacy.Gaussian(-1),
    lambda: sf.privacy.ApproxDP(1, 1),
    lambda: sf.privacy.ApproxDP(1, -1e-9),
    lambda: sf.privacy.Sequential([sf.privacy.Pure(1), sf.privacy.NonPrivate()]),
    lambda: sf.privacy.Parallel([sf.privacy.NonPrivate()]),
    lambda: sf.privacy.Repeated(sf.privacy.Pure(1), -5),
    lambda: sf.privacy.Repeated(sf.privacy.Pure(1), 0.5),
    lambda: sf.privacy.Repeated(sf.privacy.Pure(1), 10**18),
    lambda: sf.privacy.Sequential([sf.privacy.RandomizedAnswer(1), EVENTS[5]]),
    lambda: sf.privacy.RandomizedAnswer(1),
    lambda: sf.privacy.Sequential([sf.privacy.Pure(Fraction(1, 7**50))] * 3000),
    lambda: 1.0,
    lambda: None,
    lambda: {"event": "pure", "epsilon": "1"},
    lambda: sf.privacy.Budget(1),
)
ODD_WORDS: tuple[dict[str, Any], ...] = (
    {"about": ""},
    {"about": "   "},
    {"about": "x" * 501},
    {"about": None},
    {"about": "half \ud800 of one"},
    {"population": "nobody"},
    {"population": ""},
    {"population": "patients:ada"},
    {"population": None},
    {"analyst": "nobody"},
    {"key": ""},
    {"key": "k" * 201},
)


def test_odd_events_and_words_charge_nothing(lab: sf.Lab) -> None:
    for make in ODD_EVENTS:
        with pytest.raises(SfumatoError):
            spend(lab, make())
    for said in ODD_WORDS:
        with pytest.raises(SfumatoError):
            spend(lab, sf.privacy.Pure(0.5), **said)
    assert spent(lab) == sf.privacy.NOTHING
    assert lab.verify().charges == 0


def test_a_charge_follows_one_of_a_question_in_any_order(lab: sf.Lab) -> None:
    question = lab.session("ada").sql("SELECT COUNT(*) AS n FROM visits")
    question.release(epsilon=0.5, key="k")
    with pytest.raises(PolicyError, match="SF-L204"):
        spend(lab, sf.privacy.Pure(0.1), analyst="ada", key="k")
    spend(lab, sf.privacy.Pure(0.1), key="k")  # other payers, so another key
    assert question.release(epsilon=0.5).receipt.replayed


def test_the_request_is_pinned(lab: sf.Lab) -> None:
    """A key that was used years ago must be found again, so the hash behind it never changes."""
    words = ("patients", "a table", sf.ADD_REMOVE, None, "k")
    charge = parse_foreign_release(sf.privacy.Pure(1), *words).make_charge(lab.contents, "add-remove")
    assert charge.request == "41776f73914ca518fc3316b8c96190de697e64fd32d28f831792a332e3f80668"
    assert json.loads(charge.write_entry_body("2026-01-01", "0"))["about"]["source"] == "external"
