"""Which slot a reply gets, and that it leaves at its end: nothing here depends on a clock."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.curator.hostile.apart import WorkerError
from sfumato.curator.hostile.reading import SlotReader
from sfumato.curator.hostile.slots import LADDER, SlotClock, choose_slot, find_end, reading_time
from sfumato.errors import PolicyError
from unit.curator.hostile.kinds import ASKED, SPEND, make_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import sfumato as sf
    from sfumato.curator.hostile.reading import Ask


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> tuple[sf.Lab, sf.Lab]:
    folder: Path = tmp_path_factory.mktemp("slots")
    return make_lab(folder / "with", target=True), make_lab(folder / "without", target=False)


class Hands:
    """A clock whose hands move when someone sleeps, or by so much at each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.time, self.step, self.slept = 100.0, step, list[float]()

    def now(self) -> float:
        self.time += self.step
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class OneAnswer:
    """In the place of an engine and of workers: gives one answer, or fails."""

    def __init__(self, outcome: str | Exception) -> None:
        self.outcome, self.given = outcome, list[float]()

    def ask(self, steps: Sequence[Any], seconds: float) -> str:
        self.given.append(seconds)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class SlowStart:
    """In the place of workers: one is there after so many seconds."""

    def __init__(self, hands: Hands, seconds: float) -> None:
        self.hands, self.seconds = hands, seconds

    def take_place(self) -> AbstractContextManager[object]:
        return nullcontext()

    @contextmanager
    def start_worker(self, *, learns: bool = False) -> Iterator[Ask]:
        self.hands.time += self.seconds
        yield OneAnswer("[[1]]").ask

    def close(self) -> None: ...


def _clock(hands: Hands) -> SlotClock:
    # Sleeping to the very end: hands that stand still would never come through the stretch waited awake.
    return SlotClock(hands.now, lambda seconds: hands.sleep(seconds + 0.01))


def _reader(hands: Hands) -> SlotReader:
    nobody: Any = None
    return SlotReader(nobody, nobody, _clock(hands))


@pytest.mark.parametrize("kind", ASKED)
def test_both_neighbours_get_the_same_slot(neighbours: tuple[sf.Lab, sf.Lab], kind: str) -> None:
    first, second = (choose_slot(ASKED[kind](lab.session()).quote(**SPEND).plan) for lab in neighbours)
    assert first == second
    assert first in LADDER


def test_a_slower_table_or_more_scans_never_get_an_earlier_slot(neighbours: tuple[sf.Lab, sf.Lab]) -> None:
    session = neighbours[0].session()
    plain = session.sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).plan
    heavy = ASKED["self join"](session).quote(epsilon=1).plan
    paces = (1, 50, 200, 1000, 5000, 20_000)
    for plan in (plain, heavy):
        slots = [choose_slot(replace(plan, table=replace(plan.table, pace=pace))) for pace in paces]
        assert slots == sorted(slots)
        assert len(set(slots)) > 2
    assert choose_slot(plain) <= choose_slot(heavy)


def test_what_fits_in_no_slot_is_refused_before_the_charge(neighbours: tuple[sf.Lab, sf.Lab]) -> None:
    plan = neighbours[0].session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).plan
    with pytest.raises(PolicyError, match="SF-Q191"):
        choose_slot(replace(plan, table=replace(plan.table, pace=10**6)))


# ---- leaving -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["[[1]]", ValueError("rows"), WorkerError("killed"), MemoryError()])
def test_every_reply_leaves_at_the_end_of_its_slot(outcome: str | Exception) -> None:
    hands, answer = Hands(), OneAnswer(outcome)
    reader = _reader(hands)
    if isinstance(outcome, str):
        assert reader._read(answer.ask, 4.0, 100.0, ()) == outcome
    else:
        with pytest.raises(type(outcome)):
            reader._read(answer.ask, 4.0, 100.0, ())
    assert hands.time == pytest.approx(104, abs=0.02)
    assert answer.given == [reading_time(4.0)]


@pytest.mark.parametrize(("took", "left"), [(0.0, 100.25), (0.03, 100.25), (0.04, 100.5), (0.2, 100.5)])
def test_the_start_of_the_worker_is_within_the_slot(
    neighbours: tuple[sf.Lab, sf.Lab], took: float, left: float
) -> None:
    """How long it takes to start depends on what the workers of others are doing, so no reply may show it."""
    lab, hands = neighbours[0], Hands()
    plan = lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).plan
    plan = replace(plan, table=replace(plan.table, pace=1))
    reader = SlotReader(SlowStart(hands, took), lab.engine, _clock(hands))
    with reader.begin(plan, lambda: None) as read:
        assert read(plan.steps) == "[[1]]"
    assert hands.time == pytest.approx(left, abs=0.02)


def test_a_slow_charge_moves_the_reply_by_whole_slots() -> None:
    ends = [find_end(4.0, 100.0, asked) for asked in (100.0, 100.5, 100.51, 104.5, 104.51)]
    assert ends == [104, 104, 108, 108, 112]


def test_an_answer_that_comes_late_is_no_answer() -> None:
    """The worker answered, but the machine was so busy that its time was over."""
    hands = Hands(step=3.9)
    with pytest.raises(WorkerError):
        _reader(hands)._read(OneAnswer("[[1]]").ask, 4.0, 100.0, ())


def test_an_interrupt_does_not_wait_for_the_slot() -> None:
    hands = Hands()

    def interrupted(steps: Sequence[Any], seconds: float) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _reader(hands)._read(interrupted, 256.0, 100.0, ())
    assert hands.slept == []


def test_the_wait_ends_awake() -> None:
    hands = Hands(step=0.0005)
    SlotClock(hands.now, hands.sleep).wait_until(101)
    assert hands.time == pytest.approx(101, abs=0.001)
    assert len(hands.slept) == 1
