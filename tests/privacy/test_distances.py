"""Distances: what is computed is the fewest changes, and one unit moves it by one at most."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.plan.distances import Linear, Mode, Single
from sfumato.lab.session import Session


def _scores(rng: np.random.Generator, gain: int) -> list[int]:
    return rng.integers(-6, gain + 1, size=rng.integers(0, 8)).tolist()


def _linear(goal: int, gain: int) -> Linear:
    return Linear((1,), goal, gain)


def _distance(step: Linear, scores: list[int]) -> int:
    return step.distance(np.array([scores], dtype=np.int64))


def _searched(scores: list[int], goal: int, gain: int) -> int | None:
    """The fewest changes by trying all: which units to remove, then how many to add."""
    for changes in range(len(scores) + abs(goal) + sum(map(abs, scores)) + 2):
        for removed in range(min(changes, len(scores)) + 1):
            for chosen in combinations(range(len(scores)), removed):
                rest = sum(score for place, score in enumerate(scores) if place not in chosen)
                if rest + (changes - removed) * gain >= goal:
                    return changes
    return None


def test_a_linear_distance_is_the_fewest_changes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        gain = int(rng.integers(0, 5))
        scores, goal = _scores(rng, gain), int(rng.integers(-15, 16))
        searched = _searched(scores, goal, gain)
        if searched is not None:
            assert _distance(_linear(goal, gain), scores) == searched


def test_one_unit_moves_a_linear_distance_by_one_at_most() -> None:
    rng = np.random.default_rng(2)
    reached = set()
    for _ in range(5000):
        gain = int(rng.integers(0, 5))
        scores, step = _scores(rng, gain), _linear(int(rng.integers(-15, 16)), gain)
        for place in range(len(scores)):
            without = scores[:place] + scores[place + 1 :]
            reached.add(_distance(step, scores) - _distance(step, without))
    assert reached == {-1, 0, 1}


def test_one_unit_moves_a_distance_to_a_mode_by_one_at_most() -> None:
    rng, rows = np.random.default_rng(3), 5
    step, reached = Mode(1, rows), set()
    for _ in range(5000):
        counts = rng.integers(0, 30, size=4)
        added = rng.multinomial(int(rng.integers(0, rows + 1)), rng.dirichlet([0.3] * 4))
        moved = step.distance(np.array([counts + added])) - step.distance(np.array([counts]))
        reached.add(moved)
    assert reached == {-1, 0, 1}


def test_one_unit_moves_the_distance_to_a_unique_value_by_one() -> None:
    step = Single()
    found = [step.distance(np.array([[count]])) for count in range(5)]
    assert found == [1, 0, 1, 2, 3]


ROWS = {  # ten people with two rows each: 1,1 2,2 … 10,10
    "who": [person for person in range(10) for _ in range(2)],
    "x": [person + 1 for person in range(10) for _ in range(2)],
    "ward": ["A"] * 12 + ["B"] * 6 + ["C"] * 2,
}
DISTANCES = [
    ("COUNT(*) >= 20", 0),
    ("COUNT(*) >= 21", 1),
    ("COUNT(*) >= 30", 4),  # three rows each
    ("COUNT(*) <= 15", 3),
    ("SUM(x) >= 110", 0),
    ("SUM(x) >= 140", 1),  # one more person with three tens
    ("SUM(x) <= 100", 1),
    ("AVG(x >= 6) >= 0.5", 0),
    ("AVG(x >= 6) >= 0.6", 2),  # (10 + 3k) / (20 + 3k), or take some away: 10 / 18, then 10 / 16
    ("AVG(x >= 6) <= 0.1", 5),
    ("MEDIAN(x) <= 5", 0),
    ("MEDIAN(x) >= 9", 4),  # four more people with three nines: 16 of 32
    ("MODE(ward) = 'A'", 0),
    ("MODE(ward) = 'B'", 2),
    ("IS_UNIQUE(ward) = 'C'", 0),
    ("IS_UNIQUE(ward) = 'A'", 5),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder: Path = tmp_path_factory.mktemp("lab")
    lab = sf.create(folder / "lab")
    lab.register(
        "t",
        pa.table(ROWS),
        unit=sf.Unit("who", max_rows=3),
        columns={"x": sf.between(0, 10, step=1), "ward": sf.one_of("A", "B", "C")},
        budget=sf.Budget(epsilon=100_000),
    )
    return lab.session()


@pytest.mark.parametrize(("wanted", "distance"), DISTANCES, ids=[text for text, _ in DISTANCES])
def test_a_distance_as_people_ask_for_it(session: Session, wanted: str, distance: int) -> None:
    """At ε = 200 the noise is zero but for a chance below 1e-80."""
    assert session.table("t").distance(wanted).release(epsilon=200).value == distance


def test_a_distance_costs_what_it_says(session: Session) -> None:
    asked = session.table("t").where("x > 3").distance("COUNT(*) >= 100")
    assert asked.quote(epsilon=0.5).epsilon == Fraction(1, 2)
    answer = asked.release(epsilon=0.5)
    assert answer.low <= answer.value <= answer.high or answer.value < 0
