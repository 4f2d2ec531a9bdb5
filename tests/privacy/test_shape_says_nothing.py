"""Names, types, keys, order and number of rows of an answer follow from the question and the catalog alone.

Every kind of question is asked of tables that have nothing in common but their declaration: empty, of one
row, all missing, extreme, stored in other types, and drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import sfumato as sf
from sfumato.lab.session import Query, Session

COLUMNS: dict[str, Any] = {
    "age": sf.between(0, 110),
    "wide": sf.between(-(2**34), 2**34, step=1),
    "fine": sf.between(0, 1e-9),
    "ward": sf.one_of("C", "A", "B"),
    "flag": sf.one_of(1, 0),
    "level": sf.one_of(0.5, -1.5, 2),
    "smoker": sf.one_of(False, True),
}
NAMES = ("who", *COLUMNS)

STEADY = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(age) AS n, COUNT(ward) AS m FROM t WHERE age IS NULL",
    "SELECT COUNT(DISTINCT who) AS people FROM t",
    "SELECT SUM(age) AS s, SUM(flag) AS f, SUM(level) AS l FROM t",
    "SELECT SUM(wide) AS w, AVG(wide) AS a, VARIANCE(wide) AS v, STDDEV_POP(wide) AS d FROM t",
    "SELECT SUM(fine) AS w, AVG(fine) AS a, STDDEV(fine) AS d FROM t",
    "SELECT AVG(age) AS a, VAR_POP(age) AS v, STDDEV(level) AS d FROM t WHERE age > 200",
    "SELECT AVG(age) / COUNT(*) AS q, SUM(wide) * SUM(wide) AS p, 1 / COUNT(*) AS r FROM t",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward",
    "SELECT COUNT(*) AS n FROM t GROUP BY ward",
    "SELECT COUNT(*) AS n, ward AS w FROM t GROUP BY ward",
    "SELECT flag, level, smoker, ward, COUNT(*) AS n FROM t GROUP BY ward, flag, smoker, level",
    "SELECT level, AVG(age) AS a, STDDEV(age) AS d, COUNT(DISTINCT who) AS p FROM t GROUP BY level",
    "SELECT smoker, SUM(wide) AS s FROM t WHERE ward = 'A' OR NOT flag = 1 GROUP BY smoker",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward ORDER BY ward",
    "SELECT flag, COUNT(*) AS n FROM t GROUP BY flag ORDER BY flag DESC",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward ORDER BY ward LIMIT 2",
    "SELECT ward, flag, COUNT(*) AS n FROM t GROUP BY ward, flag LIMIT 3 OFFSET 2",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward LIMIT 5 OFFSET 10",
]
CHOSEN = [
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING COUNT(*) > 100",
    "SELECT ward, AVG(age) AS a FROM t GROUP BY ward HAVING SUM(flag) < 0 OR NOT COUNT(*) = 3",
    "SELECT level, flag, SUM(age) AS s FROM t GROUP BY level, flag ORDER BY s DESC LIMIT 3",
    "SELECT smoker, COUNT(*) AS n FROM t GROUP BY smoker ORDER BY n",
]
SPENDS: list[dict[str, Any]] = [
    {"epsilon": 1},
    {"epsilon": 1e-3},
    {"rho": 0.5},
    {"epsilon": 2, "delta": 1e-6},
    {"share": 0.0001},
]
FRAMES: list[Callable[[Session], Query]] = [
    lambda s: s.table("t").count(),
    lambda s: s.table("t").where("age >= 65").group_by("ward", "flag").agg(n=sf.count(), a=sf.mean("age")),
    lambda s: s.table("t").group_by("smoker").agg(s=sf.sum("wide"), c=sf.count("level")),
]


# ---- tables that have nothing in common --------------------------------------------------------------------


def table(rows: list[tuple[Any, ...]], **types: pa.DataType) -> pa.Table:
    usual = {"who": pa.string(), "ward": pa.string(), "smoker": pa.bool_(), "flag": pa.int64()}
    kinds = {name: types.get(name, usual.get(name, pa.float64())) for name in NAMES}
    return pa.table({name: pa.array([row[at] for row in rows], kinds[name]) for at, name in enumerate(NAMES)})


def empty(folder: Path) -> Any:
    return table([])


def one_row(folder: Path) -> Any:
    return table([("p", 50.0, 0.0, 0.0, "A", 1, 0.5, True)])


def missing(folder: Path) -> Any:
    return table([("p", None, None, float("nan"), None, None, None, None)] * 3)


def nobody(folder: Path) -> Any:
    return table([(None, 1.0, 1.0, 1.0, "A", 1, 0.5, True)] * 3)


def undeclared(folder: Path) -> Any:
    return table([(f"p{n}", 1e300, -1e300, float("inf"), "\x00'", 7, 9.0, None) for n in range(9)])


def extreme(folder: Path) -> Any:
    return table([(f"p{n}", 110.0, 2.0**52, 1e-9, "B", 1, 2.0, True) for n in range(9_000)])


def whole_numbers(folder: Path) -> Any:
    kinds: dict[str, Any] = {
        "age": pa.int8(),
        "wide": pa.int64(),
        "fine": pa.uint16(),
        "who": pa.int64(),
        "flag": pa.float32(),
    }
    return table([(n, n, -n, n, "C", n % 3, -1.5, None) for n in range(100)], **kinds)


def decimals(folder: Path) -> Any:
    kinds = {"age": pa.decimal128(38, 2), "wide": pa.decimal128(38, 0), "level": pa.decimal128(5, 3)}
    return table([("p", Decimal("1.25"), Decimal(10) ** 37, 0.0, "A", 0, Decimal("0.5"), False)] * 4, **kinds)


def csv(folder: Path) -> Any:
    file = folder / "t.csv"
    pyarrow.csv.write_csv(table([(f"p{n}", n, n, 0.0, "A", n % 2, 0.5, None) for n in range(30)]), file)
    return file


def frame(folder: Path) -> Any:
    """pandas, with columns of objects."""
    return table([(f"p{n}", float(n), None, 0.0, "ß", 1, 2.0, n == 1) for n in range(30)]).to_pandas()


def drawn(seed: int) -> Callable[[Path], Any]:
    def source(folder: Path) -> Any:
        rng = np.random.default_rng(seed)
        size = int(rng.choice([2, 30, 1000]))
        wide = rng.normal(0, 10.0 ** rng.integers(0, 20), size)
        return pa.table(
            {
                "who": pa.array(rng.integers(0, size // 2 + 1, size)),
                "age": pa.array(
                    rng.normal(50, 10.0 ** rng.integers(0, 5), size), mask=rng.random(size) < 0.2
                ),
                "wide": wide.astype(np.float32) if rng.random() < 0.5 else wide,
                "fine": rng.random(size) * 1e-9,
                "ward": rng.choice(["A", "B", "D", "", "a"], size),
                "flag": rng.integers(-1, 3, size),
                "level": rng.choice([0.5, 2.0, 7.0], size),
                "smoker": pa.array(rng.random(size) < 0.1, mask=rng.random(size) < 0.5),
            }
        )

    return source


SOURCES: dict[str, Callable[[Path], Any]] = {
    each.__name__: each
    for each in (empty, one_row, missing, nobody, undeclared, extreme, whole_numbers, decimals, csv, frame)
} | {f"drawn {seed}": drawn(seed) for seed in range(4)}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    made = {}
    for name, source in SOURCES.items():
        folder = tmp_path_factory.mktemp("shape")
        lab = sf.create(folder / "lab")
        unit = sf.Unit("who", max_rows=4)
        lab.register("t", source(folder), unit=unit, columns=COLUMNS, budget=sf.Budget(10**6, 1e-3))
        made[name] = lab.session()
    return made


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """Compute intervals from few draws of the noise. That changes where their ends are, but no shape."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.curator.answers.noise_law._FINE_POINTS", 2**11)
        patch.setattr("sfumato.curator.answers.noise_law._POINTS", 2**10)
        yield


# ---- shapes ------------------------------------------------------------------------------------------------


def shape(query: Query, spend: dict[str, Any], *, chosen: bool = False) -> dict[str, Any]:
    """All that a program could branch on before it looks at a number.

    Which groups are significant is read off the noisy numbers, so all groups are asked for, except where
    the question itself chooses among rows.
    """
    quote, release = str(query.quote(**spend)), query.release(**spend, include_empty=not chosen)
    answer, interval = release.to_arrow(), release.interval(0.9)
    return {
        "quote": quote,
        "arrow": (str(answer.schema), str(interval.schema)),
        "pandas": [(name, str(kind)) for name, kind in release.to_pandas().dtypes.items()],
        "polars": str(release.to_polars().schema),
        "words": str(release).splitlines()[0].split(),
        "receipt": _shape(release.receipt.to_dict()),
        "rows": None if chosen else (answer.num_rows, interval.num_rows),
        "keys": None if chosen else keys(answer, interval),
    }


def _shape(receipt: dict[str, Any]) -> dict[str, Any]:
    """Hashes and signatures by their length."""
    hashed = ("head", "public_key", "signature")
    return {
        name: _shape(value) if isinstance(value, dict) else len(value) if name in hashed else value
        for name, value in receipt.items()
    }


def keys(answer: pa.Table, interval: pa.Table) -> dict[str, list[Any]]:
    """The columns that have no interval, row by row."""
    labels = set(answer.column_names) & set(interval.column_names)
    return {name: answer[name].to_pylist() for name in sorted(labels)}


def _all_alike(sessions: dict[str, Session], ask: Callable[[Session], Query], spend: dict[str, Any]) -> None:
    heard = {name: shape(ask(session), spend) for name, session in sessions.items()}
    assert {name: each for name, each in heard.items() if each != heard["empty"]} == {}


@pytest.mark.parametrize("sql", STEADY)
def test_the_shape_of_an_answer_is_public(sessions: dict[str, Session], sql: str) -> None:
    _all_alike(sessions, lambda session: session.sql(sql), SPENDS[STEADY.index(sql) % len(SPENDS)])


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_the_shape_does_not_follow_the_noise(sessions: dict[str, Session], spend: dict[str, Any]) -> None:
    sql = "SELECT ward, flag, COUNT(*) AS n, SUM(level) AS s, AVG(age) AS a FROM t GROUP BY ward, flag"
    _all_alike(sessions, lambda session: session.sql(sql), spend)


@pytest.mark.parametrize("ask", FRAMES)
def test_the_shape_of_a_frame_is_public(
    sessions: dict[str, Session], ask: Callable[[Session], Query]
) -> None:
    _all_alike(sessions, ask, {"epsilon": 3})


@pytest.mark.parametrize("sql", CHOSEN)
def test_noise_chooses_rows_and_nothing_else(sessions: dict[str, Session], sql: str) -> None:
    """Which rows are shown, and in which order, is computed from noisy numbers; the types are not."""
    spend = {"epsilon": 1}
    heard = [shape(session.sql(sql), spend, chosen=True) for session in sessions.values()]
    assert all(each == heard[0] for each in heard)
    for session in sessions.values():
        release = session.sql(sql).release(**spend)  # type: ignore[arg-type]
        for name, shown in keys(release.to_arrow(), release.interval()).items():
            assert set(shown) <= {*COLUMNS[name].domain.show_values(), None}


def test_keys_come_in_the_order_declared(sessions: dict[str, Session]) -> None:
    sql = "SELECT ward, flag, COUNT(*) AS n FROM t GROUP BY ward, flag"
    for session in sessions.values():  # all of them, so that all have spent the same
        shown = session.sql(sql).release(epsilon=5, include_empty=True).to_arrow()
        assert shown["ward"].to_pylist() == ["C"] * 3 + ["A"] * 3 + ["B"] * 3 + [None] * 3
        assert shown["flag"].to_pylist() == [1, 0, None] * 4


def test_tables_are_as_different_as_they_look(sessions: dict[str, Session]) -> None:
    """Else equal shapes would say nothing."""
    sql = "SELECT COUNT(*) AS n, SUM(wide) AS s FROM t"
    shown = [
        session.sql(sql).release(epsilon=1000).to_arrow().to_pylist()[0] for session in sessions.values()
    ]
    assert len({round(each["n"], -1) for each in shown}) >= 4
    assert max(abs(each["s"]) for each in shown) > 2.0**40
