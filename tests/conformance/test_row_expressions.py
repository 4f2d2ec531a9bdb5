"""Random row expressions are answered as plain DuckDB answers them on DECIMAL columns, on every engine.

Without noise, an answer may differ from the truth by the slack that its interval states, and no more.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from scipy import stats

import sfumato as sf
from conformance import random_rows
from conformance.both_engines import find_loader
from conformance.random_rows import Asked, Condition, ask, ask_key, condition, names_only_numbers
from exact_answers import without_noise
from sfumato.audit.distance import input_distance
from sfumato.curator.answers.intervals import SUMMED_ROWS
from sfumato.errors import PolicyError, SealedError, SfumatoError
from sfumato.noise.audit_hook import MechanismCall, recording

ENGINES = ("DuckDB", "PostgreSQL", "Spark")
EPSILON = 1
BATCH = 8
TODAY = datetime.now(UTC).date().toordinal()


# ---- the truth ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """What plain DuckDB answers, by how much its own doubles may be off, and the rows it cannot decide."""

    value: float | None
    within: float
    unsure: int
    rows: int
    largest: float


def read_truth(plain: Any, asked: list[Asked], where: Condition | None, table: str = "t") -> list[Truth]:
    """Evaluate every row in DuckDB and add up here, without further rounding errors."""
    columns = ["COALESCE(TRUE, FALSE)" if where is None else f"COALESCE({where.plain}, FALSE)"]
    columns.append(_any(() if where is None else where.unsure))
    for each in asked:
        if each.of is not None:
            columns += [each.of.plain, each.of.err, _any(each.of.unsure)]
        elif each.when is not None:
            columns += [f"CASE WHEN {each.when.plain} THEN 1 END", "0", _any(each.when.unsure)]
    found = list(zip(*plain.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall(), strict=True))
    kept, doubtful = found[0], found[1]
    return [
        _add_up(asked[at].kind, kept, doubtful, *found[2 + 3 * at : 5 + 3 * at]) for at in range(len(asked))
    ]


def _any(conditions: tuple[str, ...]) -> str:
    return " OR ".join(f"COALESCE({each}, FALSE)" for each in dict.fromkeys(conditions)) or "FALSE"


def _add_up(kind: str, kept: Any, doubtful: Any, values: Any, errors: Any, unsure: Any) -> Truth:
    rows = [at for at, there in enumerate(kept) if there and values[at] is not None]
    numbers = [float(values[at]) for at in rows]
    undecided = sum(1 for at, there in enumerate(kept) if doubtful[at] or (there and unsure[at]))
    largest = max(map(abs, numbers), default=0.0)
    if kind in ("COUNT", "WHERE"):
        return Truth(len(rows), 0.0, undecided, len(rows), 1.0)
    off = 4 * math.fsum(float(errors[at] or 0) for at in rows) + 1e-14 * math.fsum(map(abs, numbers))
    total = math.fsum(numbers)
    if kind == "SUM":
        return Truth(total, off, undecided, len(rows), largest)
    return Truth(total / len(rows) if rows else None, off / max(1, len(rows)), undecided, len(rows), largest)


# ---- the judge ---------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Asks a session and plain DuckDB about the same rows, and notes what differs."""

    session: Any
    plain: Any
    wrong: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, list[str]] = field(default_factory=dict)

    def compare(self, asked: list[Asked], where: Condition | None, *, of_units: bool = False) -> None:
        """Ask for several numbers of rows or units at once; one by one where they are refused together."""
        source, table = (random_rows.PER_UNIT, "u") if of_units else ("t", "t")
        names = [f"a{at}" for at in range(len(asked))]
        shown = ", ".join(f"{each.sql} AS {name}" for each, name in zip(asked, names, strict=True))
        sql = f"SELECT {shown} FROM {source}" + ("" if where is None else f" WHERE {where.sql}")
        try:
            with without_noise():
                release = self.session.sql(sql).release(epsilon=EPSILON)
                row, ends = release.to_arrow().to_pylist()[0], release.interval().to_pylist()[0]
        except SealedError:
            self.wrong.append(f"{sql}\n    charged, and not answered")
            return
        except SfumatoError as refusal:
            if len(asked) > 1:
                for each in asked:
                    self.compare([each], where, of_units=of_units)
                return
            self._refuse(sql, refusal)
            return
        for each, name, truth in zip(asked, names, read_truth(self.plain, asked, where, table), strict=True):
            about = each.sql + (" of units" if of_units else "")
            about = about if where is None else f"{about} … WHERE {where.sql}"
            self._judge(each, about, row[name], (ends[f"{name}_low"], ends[f"{name}_high"]), truth)

    def _judge(self, asked: Asked, about: str, answer: Any, ends: tuple[Any, Any], truth: Truth) -> None:
        self.seen["asked"] += 1
        if truth.unsure and asked.kind in ("SUM", "AVG"):
            self.seen["undecided"] += 1
            return
        if truth.value is None or answer is None:
            if truth.value is not None or answer is not None:
                self._note(asked, about, answer, ends, truth)
            return
        if asked.kind in ("COUNT", "WHERE"):
            right = abs(answer - truth.value) <= truth.unsure
            self.seen["undecided"] += truth.unsure > 0.02 * truth.rows + 1
        else:
            low, high = ends
            if low is None or high is None:
                low = high = math.nan
            right = low - truth.within <= truth.value <= high + truth.within and low <= answer <= high
            self._check_width(asked, about, high - low, truth)
        if not right:
            self._note(asked, about, answer, ends, truth)

    def _check_width(self, asked: Asked, about: str, width: float, truth: Truth) -> None:
        """An interval that is too wide says nothing.

        Rows are rounded to 2^28 steps or more. How many there are is not public, so that a sum allows for a
        million of them; that is still little beside its noise.
        """
        assert asked.of is not None
        share = 2.0**-3 if asked.kind == "SUM" else 2.0**-24
        if width > asked.of.top * share + 16 * truth.within:
            self.wide.append(f"{about}\n    width {width}, top {asked.of.top}, truth {truth}")

    def _note(self, asked: Asked, about: str, answer: Any, ends: Any, truth: Truth) -> None:
        self.wrong.append(f"{about}\n    answer {answer}, interval {ends}, truth {truth}")

    def _refuse(self, sql: str, refusal: SfumatoError) -> None:
        self.seen["refused"] += 1
        self.refusals.setdefault(refusal.code, []).append(f"{sql}\n    {str(refusal).splitlines()[0]}")

    def compare_groups(self, key: random_rows.Number) -> None:
        """Count rows by a key."""
        sql = f"SELECT {key.sql} AS k, COUNT(*) AS n FROM t GROUP BY k"
        try:
            with without_noise():
                found = self.session.sql(sql).release(epsilon=EPSILON).to_arrow().to_pylist()
        except SealedError:
            self.wrong.append(f"{sql}\n    charged, and not answered")
            return
        except SfumatoError as refusal:
            self._refuse(sql, refusal)
            return
        self.seen["keys"] += 1
        rows = self.plain.execute(f"SELECT {key.plain}, {_any(key.unsure)} FROM t").fetchall()
        truth = Counter(None if value is None else float(value) for value, _ in rows)
        ours = {None if each["k"] is None else float(each["k"]): each["n"] for each in found}
        off = sum(abs(ours.get(each, 0) - truth[each]) for each in {*ours, *truth})
        if off > 2 * sum(unsure for _, unsure in rows):
            self.wrong.append(f"{sql}\n    answer {ours}, truth {dict(truth)}")


# ---- tables ------------------------------------------------------------------------------------------------

Load = Callable[[pa.Table], Any]


def register(folder: Path, load: Load, **tables: list[dict[str, Any]]) -> sf.Session:
    """A session of a lab with these tables, each of other people."""
    lab = sf.create(folder / "lab")
    for name, rows in tables.items():
        most = max(Counter(row["who"] for row in rows).values())
        lab.register(
            name,
            load(random_rows.make_source(rows)),
            unit=sf.Unit("who", max_rows=most, of=f"people of {name}"),
            columns=random_rows.declare(),
            budget=sf.Budget(epsilon=10**7, delta=1e-3),
        )
    return lab.session()


def ask_random(judge: Judge, draw: random.Random, count: int) -> None:
    """Ask random numbers in groups of some, one in ten as a count by a key."""
    for _ in range(count // 10):
        judge.compare_groups(ask_key(draw))
    left = count - count // 10
    while left > 0:
        of_units, size = draw.random() < 0.2, min(BATCH, left)
        asked = [ask(draw) for _ in range(3 * size)]
        where = condition(draw, 1) if draw.random() < 0.3 else None
        if of_units:
            asked = list(filter(names_only_numbers, asked))
            where = where if where and names_only_numbers(where) else None
        judge.compare(asked[:size], where, of_units=of_units)
        left -= size


def check(judge: Judge, about: str) -> None:
    """Nothing is wrong, few questions are refused, and plain DuckDB decides nearly all."""
    print(about, dict(judge.seen), {code: len(found) for code, found in judge.refusals.items()})
    assert not judge.wrong, f"{about}: {len(judge.wrong)} wrong\n" + "\n".join(judge.wrong[:20])
    asked = judge.seen["asked"] + judge.seen["keys"]
    assert judge.seen["refused"] <= 0.03 * asked, judge.refusals
    assert judge.seen["undecided"] <= 0.1 * asked


# ---- noise set to 0 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "count"), [("DuckDB", 60), ("PostgreSQL", 20), ("Spark", 20)])
def test_random_expressions_are_right(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, count: int
) -> None:
    rows = random_rows.make_rows(random.Random(0))
    judge = Judge(register(tmp_path, find_loader(engine, request), t=rows), random_rows.make_plain(rows))
    ask_random(judge, random.Random(0), count)
    check(judge, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [TODAY, TODAY + 10**6, TODAY + 2 * 10**6])
def test_many_random_expressions_are_right(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, seed: int
) -> None:
    """The seeds change daily."""
    rows = random_rows.make_rows(random.Random(seed))
    judge = Judge(register(tmp_path, find_loader(engine, request), t=rows), random_rows.make_plain(rows))
    ask_random(judge, random.Random(seed), 1000)
    check(judge, f"{engine}, seed {seed}")


@pytest.mark.parametrize("engine", ["DuckDB", "PostgreSQL"])
def test_doubles_are_rounded_at_the_ends_of_their_range(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    rows = random_rows.make_rows(random.Random(1))
    judge = Judge(register(tmp_path, find_loader(engine, request), t=rows), random_rows.make_plain(rows))
    column, literal = random_rows.column, random_rows.of_literal
    share = random_rows.divide(column("tiny"), column("tip"))
    doubles = [
        random_rows.curve("LN", literal("2.5"), ""),
        random_rows.curve("EXP", literal("0.3"), ""),
        share,
    ]
    doubles += [random_rows.divide(column(name), literal("7")) for name in ("age", "temp")]
    for name, one in itertools.product(("FLOOR", "CEIL", "ROUND", "CAST"), doubles):
        judge.compare_groups(random_rows.clip(random_rows.put_on_grid(name, 0, one), "-3", "7"))
    check(judge, engine)


@pytest.mark.parametrize(
    ("engine", "count"),
    [
        ("DuckDB", 40),
        ("PostgreSQL", 20),
        *(pytest.param(each, 1000, marks=pytest.mark.slow) for each in ENGINES),
    ],
)
def test_hostile_rows_raise_no_error_and_count_as_stated(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, count: int
) -> None:
    rows, cleaned = random_rows.make_hostile_rows(random.Random(3))
    judge = Judge(register(tmp_path, find_loader(engine, request), t=rows), random_rows.make_plain(cleaned))
    ask_random(judge, random.Random(3), count)
    check(judge, engine)


ONLY_IN_POSTGRES = (
    ("tip", "'NaN'", None),
    ("tip", "'Infinity'", Decimal(50)),
    ("tip", "'-Infinity'", Decimal(0)),
    ("day", "'infinity'", None),
    ("day", "'-infinity'", None),
    ("seen", "'infinity'", None),
)
"""Columns, what PostgreSQL can hold there and no other engine, and what it counts as."""


def test_values_that_only_postgres_has(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import psycopg

    load, rows = find_loader("PostgreSQL", request), random_rows.make_rows(random.Random(4))

    def load_odd(table: pa.Table) -> str:
        address: str = load(table)
        dsn, _, name = address.partition("#")
        with psycopg.connect(dsn) as connection:
            connection.execute(f"ALTER TABLE {name} ALTER tip TYPE NUMERIC")
            for at, (column, value, _) in enumerate(ONLY_IN_POSTGRES):
                connection.execute(f"UPDATE {name} SET {column} = {value} WHERE who % 8 = {at}")
        return address

    meant = {at: {column: counts} for at, (column, _, counts) in enumerate(ONLY_IN_POSTGRES)}
    cleaned = [row | meant.get(row["who"] % 8, {}) for row in rows]
    judge = Judge(register(tmp_path, load_odd, t=rows), random_rows.make_plain(cleaned))
    ask_random(judge, random.Random(4), 20)
    check(judge, "PostgreSQL")


LOST = 0.37
"""How far every value of `x` lies above its place on a grid of step 1."""
PER_UNIT = "SELECT AVG(y) AS a FROM (SELECT who, {} AS y FROM t GROUP BY who)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x) AS a FROM t",
        "SELECT AVG(x) AS a FROM t",
        "SELECT AVG(3 - x * 2 + x) AS a FROM t",
        "SELECT AVG(x * n) AS a FROM t",
        "SELECT AVG(CASE WHEN n > 2 THEN x ELSE -x END) AS a FROM t",
        "SELECT AVG(COALESCE(NULLIF(x, 5), n)) AS a FROM t",
        "SELECT AVG(LEAST(ABS(x), x + 1)) AS a FROM t",
        PER_UNIT.format("SUM(x)"),
        PER_UNIT.format("SUM(x / 4)"),
        PER_UNIT.format("AVG(x)"),
        PER_UNIT.format("MIN(x)"),
        PER_UNIT.format("MAX(x) - MIN(x)"),
        PER_UNIT.format("ARG_MAX(x, n)"),
        PER_UNIT.format("FIRST(x ORDER BY n)"),
        "SELECT AVG(y) AS a FROM (SELECT LAG(x) OVER (PARTITION BY who ORDER BY n) AS y FROM t)",
    ],
)
def test_intervals_hold_what_a_grid_loses(tmp_path: Path, sql: str) -> None:
    """All rows are rounded to the same side, so that an interval without its slack would miss."""
    draw = random.Random(5)
    rows = [(who, n, draw.randrange(10**8) + LOST) for who in range(30) for n in range(draw.randint(1, 3))]
    table = pa.table(dict(zip(("who", "n", "x"), map(list, zip(*rows, strict=True)), strict=True)))
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 1.1e8), "n": sf.between(0, 5, step=1)}
    lab.register(
        "t", table, unit=sf.Unit("who", max_rows=3), columns=columns, budget=sf.Budget(100, delta=1e-3)
    )
    with without_noise():
        release = lab.session().sql(sql).release(epsilon=EPSILON)
        answer, ends = release.item(), release.interval().to_pylist()[0]
    plain = duckdb.connect()
    plain.register("t", table)
    truth = plain.execute(sql).fetchall()[0][0]
    assert ends["a_low"] <= truth <= ends["a_high"], (answer, truth)
    rows_stated = SUMMED_ROWS if sql.startswith("SELECT SUM") else 1
    assert ends["a_high"] - ends["a_low"] <= 2.0**-22 * 1.1e8 * rows_stated


# ---- real noise --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_intervals_hold(tmp_path: Path, request: pytest.FixtureRequest, engine: str) -> None:
    """Each number is asked alone, so misses are independent; a false alarm has a chance of 1e-6."""
    draw = random.Random(TODAY)
    rows = random_rows.make_rows(draw)
    session, plain = register(tmp_path, find_loader(engine, request), t=rows), random_rows.make_plain(rows)
    asked = missed = 0
    while asked < 400:
        one = ask(draw)
        (truth,) = read_truth(plain, [one], None)
        if truth.value is None or truth.unsure:
            continue
        try:
            release = session.sql(f"SELECT {one.sql} AS a FROM t").release(epsilon=draw.choice([0.1, 1, 10]))
        except PolicyError:
            continue
        ends = release.interval().to_pylist()[0]
        asked += 1
        missed += not ends["a_low"] - truth.within <= truth.value <= ends["a_high"] + truth.within
    print(engine, TODAY, missed, "of", asked)
    assert missed <= stats.binom.isf(1e-6, asked, 0.05), f"seed {TODAY}"


# ---- one unit ----------------------------------------------------------------------------------------------


class Watch:
    """Keeps what every mechanism was given, and gives it as the answer."""

    def __init__(self) -> None:
        self.calls: list[MechanismCall] = []

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        self.calls.append(call)
        return call.exact


def _inputs(session: sf.Session, asked: list[Asked], name: str) -> list[MechanismCall] | None:
    """What the mechanisms are given for these numbers of a table; None if they are refused."""
    shown = ", ".join(f"{each.sql} AS a{at}" for at, each in enumerate(asked))
    watch = Watch()
    try:
        with recording(watch):
            session.sql(f"SELECT {shown} FROM {name}").release(epsilon=EPSILON)
    except PolicyError:
        return None
    return watch.calls


@pytest.mark.parametrize(
    ("engine", "count"),
    [("DuckDB", 30), *(pytest.param(each, 2000, marks=pytest.mark.slow) for each in ENGINES)],
)
def test_one_unit_moves_an_answer_by_no_more_than_was_charged_for(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, count: int
) -> None:
    """Where a unit is a row, the norm of what it moves is the largest share of a bound that its row has."""
    seed, few = (TODAY, 2 if engine == "Spark" else 4) if count > 30 else (0, 4)
    draw = random.Random(seed)
    rows, _ = random_rows.make_hostile_rows(draw, 40)
    rows = [row | {"who": who} for who, row in enumerate(rows)]
    gone = draw.sample(range(len(rows)), few)
    without = {f"t{at}": rows[:at] + rows[at + 1 :] for at in gone}
    session = register(tmp_path, find_loader(engine, request), t=rows, **without)
    tried, nearest, batches = 0, 0.0, list[list[Asked]]()
    while sum(map(len, batches)) < count:
        batches.append([ask(draw) for _ in range(BATCH if engine == "Spark" else draw.choice([1, 1, BATCH]))])
    for asked in batches:
        whole = _inputs(session, asked, "t")
        if whole is None:
            continue
        tried += len(asked)
        for name in without:
            other = _inputs(session, asked, name)
            assert other is not None
            assert len(other) == len(whole)
            for one, two in zip(whole, other, strict=True):
                moved = input_distance(one.mechanism, one.exact, two.exact)
                assert moved <= one.sensitivity == two.sensitivity, (seed, name, [each.sql for each in asked])
                nearest = max(nearest, float(moved / one.sensitivity))
    assert tried >= 0.8 * count
    assert nearest > 0.5, "a bound that nothing comes near would hide a mistake"
