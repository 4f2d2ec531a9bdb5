"""Which rows of a unit are kept, in which order, and what is said of a unit: from that unit's rows alone.

The reference is written from docs/proofs/contribution-bounds.md. The tables are random but fixed.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter, defaultdict
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredText, StoredTime

COLUMNS = (
    StoredGrid("cost", 0, 3),
    StoredCodes("ward", ("A", "B")),
    StoredText("note"),
    StoredTime("day", 0, 3, False),
    StoredGrid("born", 0, 9, missing=7),
)
NOTES = ["", "x", "a,b", "a", None, "é\n"]


def preparation(
    max_rows: int = 3, constant: tuple[str, ...] = ("note", "born"), key: bytes = b"k"
) -> Preparation:
    return Preparation("who", max_rows, COLUMNS, key, constant)


def row(draw: random.Random, who: str) -> dict[str, Any]:
    return {
        "who": who,
        "cost": draw.choice([None, 0.0, 1.0, 2.0]),
        "ward": draw.choice(["A", "B", "other"]),
        "note": draw.choice(NOTES),
        "day": draw.choice([None, 0, 1, 2]),
        "born": draw.choice([None, 1.0, 2.0]),
    }


def rows(draw: random.Random, units: int = 30) -> list[dict[str, Any]]:
    """Units with 1 to 12 rows; some have one row many times."""
    made = []
    for unit in range(units):
        size = draw.choice([1, 1, 2, 3, 4, 12])
        alike = draw.random() < 0.3
        own = [row(draw, f"person {unit}") for _ in range(1 if alike else size)]
        made += own * (size if alike else 1)
    draw.shuffle(made)
    return made


def table(made: list[dict[str, Any]]) -> pa.Table:
    types = {"who": pa.string(), "cost": pa.float64(), "ward": pa.string(), "note": pa.string()}
    types |= {"day": pa.date32(), "born": pa.float64()}
    return pa.table({name: pa.array([each[name] for each in made], of) for name, of in types.items()})


# ---- the reference -----------------------------------------------------------------------------------------


def md5(key: bytes, purpose: str, text: str) -> bytes:
    derived = hmac.new(key, purpose.encode(), "sha256").hexdigest()[:32]
    return hashlib.md5(f"{derived}:{text}".encode()).digest()


def stored(each: dict[str, Any]) -> tuple[Any, ...]:
    ward = {"A": 0, "B": 1}.get(each["ward"])
    born = 7 if each["born"] is None else int(each["born"])
    return None if each["cost"] is None else int(each["cost"]), ward, each["note"], each["day"], born


def field(value: Any) -> str:
    if value is None:
        return ""
    return hashlib.md5(value.encode()).hexdigest() if isinstance(value, str) else str(value)


def ranked(who: str, records: list[tuple[Any, ...]], key: bytes) -> list[tuple[Any, ...]]:
    """All records of a unit in its keyed order."""
    salt = int.from_bytes(md5(key, "unit", who)[8:], "little")
    copies: Counter[tuple[Any, ...]] = Counter()
    places = []
    for record in records:
        copies[record] += 1
        text = ",".join([str(salt), str(copies[record]), *map(field, record)])
        digest = int.from_bytes(hashlib.md5(text.encode()).digest(), "little")
        places.append((digest, record))
    return [record for _, record in sorted(places, key=lambda place: place[0])]


def reference(made: list[dict[str, Any]], asked: Preparation) -> dict[UUID, Any]:
    """For each person the number of rows, the block, and the kept rows with their places."""
    people = defaultdict(list)
    for each in made:
        people[each["who"]].append(stored(each))
    return {
        UUID(bytes=md5(asked.key, "person", who)): (
            len(records),
            int.from_bytes(md5(asked.key, "unit", who)[:2], "little"),
            kept(ranked(who, records, asked.key), asked),
        )
        for who, records in people.items()
    }


def kept(order: list[tuple[Any, ...]], asked: Preparation) -> list[tuple[Any, ...]]:
    decided = [column.name in asked.constant for column in asked.columns]
    same = [
        tuple(first if fixed else own for first, own, fixed in zip(order[0], record, decided, strict=True))
        for record in order[: asked.max_rows]
    ]
    return [(place, *record) for place, record in enumerate(same, 1)]


# ---- what a snapshot holds ---------------------------------------------------------------------------------


def snapshot(store: Any, name: str) -> dict[UUID, Any]:
    units = store.read("SELECT unit, person, rows, block FROM units", name)
    found = defaultdict(list)
    for unit, *values in store.read("SELECT * FROM rows ORDER BY unit, place", name):
        found[unit].append(tuple(values))
    return {person: (size, block, found[unit]) for unit, person, size, block in units}


@pytest.mark.parametrize("max_rows", [2, 3, 20])
@pytest.mark.parametrize("constant", [(), ("note", "born"), ("cost", "ward", "day")])
def test_rows_are_kept_as_the_proof_says(store, max_rows, constant):
    made = rows(random.Random(max_rows))
    asked = preparation(max_rows, constant)
    store.prepare(table(made), asked, "t")
    assert snapshot(store, "t") == reference(made, asked)


@pytest.mark.parametrize("seed", range(12))
def test_a_unit_less_changes_nothing_of_the_others(store, seed):
    """Rows in another order, other threads, and one unit gone: the others' rows, places, blocks stay."""
    draw = random.Random(seed)
    made, asked = rows(draw), preparation(draw.choice([2, 3, 5]))
    gone = draw.choice(made)["who"]
    store.prepare(table(made), asked, "whole", threads=2)
    rest = [each for each in made if each["who"] != gone]
    draw.shuffle(rest)
    store.prepare(table(rest), asked, "rest", threads=1)
    whole, without = snapshot(store, "whole"), snapshot(store, "rest")
    assert len(whole) == len(without) + 1
    assert whole.items() >= without.items()


def test_with_one_row_each_there_is_no_place(store):
    made = rows(random.Random(5))
    asked = preparation(max_rows=1)
    store.prepare(table(made), asked, "t")
    expected = {person: rows[0][1:] for person, (_, _, rows) in reference(made, asked).items()}
    found = store.read("SELECT person, rows.* EXCLUDE unit FROM rows JOIN units USING (unit)")
    assert {person: tuple(values) for person, *values in found} == expected


def test_a_constant_value_is_of_all_rows_not_of_those_that_answer(store):
    made = [row(random.Random(i), "someone") for i in range(50)]
    for max_rows in (1, 2, 50):
        store.prepare(table(made), preparation(max_rows), "t")
        assert len(store.read("SELECT DISTINCT c2, c4 FROM rows")) == 1
    few = store.read("SELECT any_value(c2) FROM rows")
    store.prepare(table(made), preparation(1), "t")
    assert store.read("SELECT any_value(c2) FROM rows") == few


def test_a_missing_value_of_the_first_row_is_the_units_value(store):
    """Among many people whose rows are one missing and one present, about half are missing throughout."""
    made = [{"who": f"{i}", "x": value} for i in range(400) for value in (None, 1.0)]
    asked = Preparation("who", 5, (StoredGrid("x", 0, 3),), b"k", ("x",))
    store.prepare(pa.table({"who": [m["who"] for m in made], "x": [m["x"] for m in made]}), asked, "t")
    values = dict(store.read("SELECT c0, count(*) FROM rows GROUP BY c0"))
    assert values.keys() == {None, 1}
    assert 280 < values[None] < 520  # 6 standard deviations of 400 fair coins, twice each


def test_the_order_does_not_favour_small_values(store):
    """Of 0 … 9 each person keeps one first; over 2,000 people every digit is first about equally often."""
    size, people = 10, 2000
    source = pa.table({"who": [i // size for i in range(size * people)], "x": list(range(size)) * people})
    store.prepare(source, Preparation("who", 2, (StoredGrid("x", 0, 9),), b"k"), "t")
    first = dict(store.read("SELECT c0, count(*) FROM rows WHERE place = 1 GROUP BY c0"))
    assert set(first) == set(range(10))
    assert all(abs(count - 200) < 6 * (people * 0.09) ** 0.5 for count in first.values())


def test_copies_of_a_row_have_places_of_their_own(store):
    """A row many times beside another once is first nearly always, not half of the time."""
    source = pa.table({"who": [f"{i // 10}" for i in range(10_000)], "x": ([0] * 9 + [1]) * 1000})
    store.prepare(source, Preparation("who", 2, (StoredGrid("x", 0, 9),), b"k"), "t")
    ((rare,),) = store.read("SELECT count(*) FROM rows WHERE place = 1 AND c0 = 1")
    assert 40 < rare < 160


def test_texts_are_cut_and_empty_ones_stay(store):
    source = pa.table({"who": [1, 2, 3, 4], "x": ["é" * 5000, "", None, "plain"]})
    store.prepare(source, Preparation("who", 2, (StoredText("x"),), b"k"), "t")
    assert sorted(store.read("SELECT c0 FROM rows"), key=str) == [
        ("",),
        ("plain",),
        ("é" * 1000,),
        (None,),
    ]


def test_people_are_one_in_all_tables_of_a_lab(store):
    people, x = StoredGrid("x", 0, 9), StoredGrid("y", 0, 9)
    store.prepare(pa.table({"who": [1, 2, 2], "x": [1, 2, 3]}), Preparation("who", 3, (people,), b"k"), "a")
    store.prepare(pa.table({"id": ["2", "3"], "y": [1, 2]}), Preparation("id", 1, (x,), b"k"), "b")
    store.prepare(pa.table({"who": [1, 2]}), Preparation("who", 3, (), b"other"), "c")
    of = {name: set(store.read("SELECT person, block FROM units", name)) for name in "abc"}
    assert len(of["a"] & of["b"]) == 1
    assert not of["a"] & of["c"]


def test_rows_without_a_unit_column_have_blocks_drawn_anew(store):
    source = pa.table({"x": [1] * 5000})
    asked = Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k")
    drawn = []
    for _ in range(2):
        store.prepare(source, asked, "t")
        assert store.read("SELECT count(DISTINCT unit), min(unit), max(unit) FROM rows") == [(5000, 0, 4999)]
        drawn.append([block for (block,) in store.read("SELECT block FROM rows ORDER BY unit")])
    moved = {one ^ other for one, other in zip(*drawn, strict=True)}
    assert len(moved) > 4500  # another key is not a relabelling of the blocks; 4,814 are expected here too
    halves = sum(block >= 2**15 for block in drawn[0])
    assert abs(halves - 2500) < 6 * 1250**0.5
    assert len(set(drawn[0])) > 4500  # of 65,536; 4,814 are expected
    assert store.read("SELECT table_name FROM duckdb_tables() ORDER BY 1") == [("columns",), ("rows",)]


def test_a_table_with_no_columns_keeps_places(store):
    store.prepare(pa.table({"who": [1, 1, 1, 2]}), Preparation("who", 2, (), b"k"), "t")
    found = store.read("SELECT rows, place FROM rows JOIN units USING (unit) ORDER BY ALL")
    assert found == [(1, 1), (3, 1), (3, 2)]
