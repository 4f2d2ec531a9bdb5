"""SQL over a release: the rows of plain DuckDB without noise, and intervals that hold with it.

Tables have 240 declared groups, of which 3 to 12 have rows. DuckDB runs in this process here; how it is kept
apart from everything else is tested with the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise
from sfumato.curator.answers import computed
from sfumato.engines.duckdb import answer_worker
from sfumato.engines.duckdb.answer_sql import Refusal

FEW, MANY = 6, 500
WARDS = [f"w{at:02}" for at in range(40)]
GROUPS = "SELECT a, b, COUNT(*) AS n, SUM(x) AS s FROM t WHERE part = {} GROUP BY a, b"
TEXTS = [
    "SELECT SUM(n) AS t, AVG(n) AS m, SUM(s) AS s, SUM(s) / SUM(n) AS q FROM answer",
    "SELECT a, SUM(n) AS n, AVG(s) AS s FROM answer GROUP BY a",
    "SELECT a, SUM(n) AS n FROM answer GROUP BY a HAVING SUM(n) > {size}",
    "SELECT a, b, n / SUM(n) OVER () AS x, SUM(n) OVER (PARTITION BY a ORDER BY b) AS r FROM answer",
    "SELECT a, b, n - LAG(n) OVER (ORDER BY a, b) AS d, n - AVG(n) OVER () AS v FROM answer",
    "SELECT a, b, n FROM answer ORDER BY n DESC, a, b LIMIT {few}",
    "SELECT a, b, s FROM answer WHERE n > {size} ORDER BY s, a, b LIMIT {few}",
    "WITH w AS (SELECT a, SUM(n) AS m FROM answer GROUP BY a) SELECT AVG(m) AS m, SUM(m) AS s FROM w",
]
EXACT = [
    "SELECT COUNT(*) AS k, MAX(n) AS m, MIN(s) AS l, MEDIAN(n) AS d FROM answer",
    "SELECT a, b, RANK() OVER (ORDER BY n DESC) AS r, NTILE(3) OVER (ORDER BY n, a, b) AS t FROM answer",
    "SELECT AVG(m) AS v, COUNT(*) AS k FROM (SELECT a, SUM(n) AS m FROM answer GROUP BY a) WHERE m > {size}",
    "SELECT a FROM answer GROUP BY a HAVING COUNT(*) > 1 ORDER BY a",
    "SELECT a, b, n FROM answer QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY n DESC, b) = 1",
    "SELECT CASE WHEN n > {size} THEN 'large' ELSE 'small' END AS size, COUNT(*) AS k FROM answer GROUP BY 1",
    "SELECT a, SUM(n) AS n FROM answer GROUP BY a ORDER BY n DESC, a LIMIT {few}",
    "SELECT b, SUM(n) AS n FROM answer GROUP BY b UNION ALL SELECT 9, SUM(n) FROM answer",
]


def run_here(texts: Sequence[str], tables: Sequence[pa.Table]) -> list[pa.Table | Refusal]:
    """Run what the worker runs, in this process."""
    connection = duckdb.connect()
    for name, table in zip(("answer", "draws"), tables, strict=False):
        connection.register("sent", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM sent")
        connection.unregister("sent")
    return [answer_worker._select(connection, text, 10**7) for text in texts]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed, "run_over_answer", run_here)


def _draw_rows(rng: np.random.Generator, parts: int) -> pa.Table:
    columns: dict[str, list[Any]] = {"part": [], "a": [], "b": [], "x": []}
    for part in range(parts):
        wards = rng.choice(WARDS, int(rng.integers(2, 6)), replace=False)
        present = {(str(rng.choice(wards)), int(rng.integers(0, 6))) for _ in range(int(rng.integers(3, 13)))}
        for a, b in sorted(present):
            size = int(rng.integers(30, 400))
            columns["part"] += [part] * size
            columns["a"] += [a] * size
            columns["b"] += [b] * size
            columns["x"] += rng.integers(0, 8, size).tolist()
    return pa.table({"who": list(range(len(columns["x"]))), **columns})


class Sources:
    """A lab, and the same rows in plain DuckDB."""

    def __init__(self, folder: Any, parts: int) -> None:
        self.parts, self.rng = parts, np.random.default_rng(5)
        rows = _draw_rows(self.rng, parts)
        columns = {
            "part": sf.between(0, parts - 1, step=1, missing=0),
            "a": sf.one_of(*WARDS, missing=WARDS[0]),
            "b": sf.between(0, 5, step=1, missing=0),
            "x": sf.between(0, 7, step=1, missing=0),
        }
        lab = sf.create(folder / "lab")
        budget = sf.Budget(epsilon=10**6, delta=1e-3)
        lab.register("t", rows, unit=sf.Unit("who", max_rows=1), columns=columns, budget=budget)
        self.session = lab.session()
        self.plain = duckdb.connect()
        self.plain.register("t", rows)

    def ask(self, part: int, **spend: float) -> Any:
        return self.session.sql(GROUPS.format(part)).release(**spend)

    def tell(self, part: int, text: str) -> list[tuple[Any, ...]]:
        """Return what plain DuckDB answers about the rows themselves."""
        inner = f"SELECT a, b, COUNT(*) AS n, SUM(x)::DOUBLE AS s FROM t WHERE part = {part} GROUP BY a, b"
        return self.plain.execute(f"WITH answer AS ({inner}) SELECT * FROM ({text})").fetchall()

    def choose(self, texts: Sequence[str]) -> list[str]:
        """Return three of the texts, others for each table."""
        return [str(each) for each in self.rng.choice(np.array(texts), 3, replace=False)]

    def fill(self, text: str) -> str:
        return text.format(size=int(self.rng.integers(40, 300)), few=int(self.rng.integers(1, 6)))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(tmp_path_factory.mktemp("many"), MANY)


# ---- rows --------------------------------------------------------------------------------------------------


def _plain(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [
        tuple(each if each is None or isinstance(each, str) else round(float(each), 9) for each in row)
        for row in rows
    ]


def _compare_rows(sources: Sources, part: int, texts: Sequence[str]) -> None:
    """Require the rows of plain DuckDB, in its order where one is asked for."""
    # No other test spends this, because it would get these answers, or this one answers with noise.
    spend = {"epsilon": 2}
    with without_noise():
        release = sources.ask(part, **spend)
        for text in map(sources.fill, texts):
            found = [tuple(row.values()) for row in release.sql(text).to_arrow().to_pylist()]
            ours, theirs = _plain(found), _plain(sources.tell(part, text))
            same = (
                ours == theirs
                if "ORDER BY" in text.rpartition(")")[2]
                else sorted(ours, key=str) == sorted(theirs, key=str)
            )
            assert same, (text, ours, theirs)
        least = int(sources.rng.integers(40, 300))
        chosen = f"{GROUPS.format(part)} HAVING COUNT(*) > {least} ORDER BY n DESC, a, b LIMIT 4"
        shown = [
            tuple(row.values()) for row in sources.session.sql(chosen).release(**spend).to_arrow().to_pylist()
        ]
        rows = sources.plain.execute(chosen).fetchall()
        assert _plain(shown) == _plain(rows) or not rows


def test_without_noise_rows_are_those_of_plain_duckdb(few: Sources) -> None:
    for part in range(FEW):
        _compare_rows(few, part, [*TEXTS, *EXACT])


@pytest.mark.slow
def test_without_noise_rows_of_many_tables_are_those_of_plain_duckdb(many: Sources) -> None:
    for part in range(MANY):
        _compare_rows(many, part, many.choose([*TEXTS, *EXACT]))


# ---- intervals ---------------------------------------------------------------------------------------------

SPENDS: list[dict[str, float]] = [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}]


def _hold(
    sources: Sources, part: int, texts: Sequence[str], spend: dict[str, float]
) -> Iterator[tuple[str, bool]]:
    """Yield for each number with an interval whether the exact one is within."""
    release = sources.ask(part, **spend)
    for text in map(sources.fill, texts):
        found = release.sql(text)
        whole = text.partition(" LIMIT ")[0].partition(" HAVING ")[0].partition(" WHERE n >")[0]
        labels = [name for name in found.columns if name in ("a", "b")]
        names = [item.name for item in found.to_arrow().schema]
        exact = {row[: len(labels)]: row for row in _plain(sources.tell(part, whole))}
        for row in found.to_arrow(intervals=True).to_pylist():
            true = exact.get(_plain([[row[name] for name in labels]])[0])
            for at, name in enumerate(names):
                if true is not None and true[at] is not None and row.get(f"{name}_low") is not None:
                    slack = 1e-9 * (1 + abs(true[at]))
                    inside = row[f"{name}_low"] - slack <= true[at] <= row[f"{name}_high"] + slack
                    yield f"{text[:40]} {name}", inside


def _require_coverage(found: Sequence[Sequence[tuple[str, bool]]]) -> None:
    """Require 94 in 100. Numbers of one table share noise; tables do not.

    A mean is off by more than six standard errors once in 10⁹.
    """
    means = np.array([np.mean([inside for _, inside in each]) for each in found if each])
    every = [inside for each in found for _, inside in each]
    print(f"{np.mean(every):.4f} of {len(every):,} intervals hold")
    error = max(float(np.std(means)), 0.05) / np.sqrt(len(means))
    assert np.mean(means) >= 0.94 - 6 * error


def test_intervals_hold(few: Sources) -> None:
    _require_coverage([list(_hold(few, part, TEXTS, SPENDS[part % 2])) for part in range(FEW)])


@pytest.mark.slow
def test_intervals_over_many_tables_hold(many: Sources) -> None:
    _require_coverage([list(_hold(many, part, many.choose(TEXTS), SPENDS[part % 2])) for part in range(MANY)])


class Hidden:
    """A table for each part with 30 groups of few rows, most of which noise hides, of 240 declared ones."""

    def __init__(self, folder: Any, parts: int) -> None:
        rng = np.random.default_rng(8)
        self.parts, self.exact = parts, [np.zeros((40, 6), dtype=np.int64) for _ in range(parts)]
        columns: dict[str, list[Any]] = {"part": [], "a": [], "b": []}
        for part, exact in enumerate(self.exact):
            sizes = rng.integers(1, 15, 30) if part % 2 else rng.choice([3, 10, 60, 200], 30)
            for place, size in zip(rng.permutation(240)[:30], sizes, strict=True):
                exact[place // 6, place % 6] = size
                columns["part"] += [part] * int(size)
                columns["a"] += [WARDS[place // 6]] * int(size)
                columns["b"] += [int(place % 6)] * int(size)
        declared = {
            "part": sf.between(0, parts - 1, step=1, missing=0),
            "a": sf.one_of(*WARDS, missing=WARDS[0]),
            "b": sf.between(0, 5, step=1, missing=0),
        }
        lab = sf.create(folder / "lab")
        budget = sf.Budget(epsilon=10**6)
        lab.register("t", pa.table(columns), unit=sf.ROW, columns=declared, budget=budget)
        self.session = lab.session()

    def hold(self, part: int) -> list[bool]:
        """Return for each interval of sums whether the exact number is within, the total first."""
        sql = f"SELECT a, b, COUNT(*) AS n FROM t WHERE part = {part} GROUP BY a, b"
        release, exact = self.session.sql(sql).release(epsilon=0.5), self.exact[part]
        (total,) = release.sql("SELECT SUM(n) AS n FROM answer").interval().to_pylist()
        found = [(total["n_low"], exact.sum(), total["n_high"])]
        text = "SELECT b, SUM(n) AS n, SUM(n) / SUM(SUM(n)) OVER () AS x FROM answer GROUP BY b"
        for row in release.sql(text).interval().to_pylist():
            size = exact[:, row["b"]].sum()
            found += [
                (row.get(f"{name}_low"), true, row.get(f"{name}_high"))
                for name, true in (("n", size), ("x", size / exact.sum()))
            ]
        return [low - 1e-9 <= true <= high + 1e-9 for low, true, high in found if low is not None]


def test_sums_hold_what_hidden_groups_have(tmp_path: Any) -> None:
    """More than 7 misses of 16 have a chance below 10⁻⁶. Of intervals of the shown groups alone, 12 miss."""
    hidden = Hidden(tmp_path, 32)
    misses = [not hidden.hold(part)[0] for part in range(1, 32, 2)]
    assert sum(misses) <= 7


@pytest.mark.slow
def test_sums_over_many_tables_hold_what_hidden_groups_have(tmp_path: Any) -> None:
    hidden = Hidden(tmp_path, 200)
    found = [hidden.hold(part) for part in range(200)]
    _require_coverage([[("total", each[0])] for each in found])
    _require_coverage([[("part", inside) for inside in each[1:]] for each in found])


def test_averages_have_no_interval_where_hidden_groups_seem_to_have_rows(tmp_path: Any) -> None:
    """Two rows in each of 210 groups are nearly all hidden. Their sum is 8 deviations of its noise."""
    columns = {"a": sf.one_of(*WARDS, missing="w00"), "b": sf.between(0, 5, step=1, missing=0)}
    pairs = [(a, b) for a in WARDS for b in range(6) for _ in range(2 if a > "w04" else 200)]
    rows = pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
    lab = sf.create(tmp_path / "lab")
    lab.register("t", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=100))
    release = lab.session().sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b").release(epsilon=0.4)
    text = "SELECT SUM(n) AS s, AVG(n) AS m, COUNT(*) AS k, SUM(1) AS o, SUM(n) / COUNT(*) AS q FROM answer"
    found = release.sql(text)
    reason = "the groups that are left out seem to have rows"
    assert [each for each in found.caveats if each.startswith("No interval")] == [
        f"No interval for {name}: {reason}" for name in ("m", "k", "o", "q")
    ]
    (ends,) = found.interval().to_pylist()
    assert ends["s_low"] < 30 * 200 + 210 * 2 < ends["s_high"]


def test_empty_groups_seldom_seem_to_have_rows(many_empty: Any) -> None:
    """The share is 5 % for each of 80 answers: more than 17 of them have a chance below 10⁻⁶."""
    lost = 0
    for turn in range(80):
        found = many_empty.release(epsilon=1 + turn / 1000).sql("SELECT AVG(n) AS m FROM answer")
        lost += any("seem to have rows" in each for each in found.caveats)
    assert lost <= 17


@pytest.fixture
def many_empty(tmp_path: Any) -> Any:
    rows = pa.table({"a": ["w01"] * 300 + ["w02"] * 500})
    lab = sf.create(tmp_path / "lab")
    columns = {"a": sf.one_of(*WARDS, missing="w00")}
    lab.register("t", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=10**6))
    return lab.session().sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a")


def test_a_result_without_rows_is_empty(few: Sources) -> None:
    found = few.ask(0, epsilon=1).sql("SELECT a, b, n FROM answer WHERE a = 'none'")
    assert len(found) == 0
    assert found.columns == ["a", "b", "n"]


def test_the_same_release_has_the_same_intervals(few: Sources) -> None:
    release = few.ask(0, epsilon=1)
    one, other = (release.sql(TEXTS[0]).interval() for _ in range(2))
    assert one == other
    wide = release.sql(TEXTS[0], confidence_level=0.99).interval().to_pylist()[0]
    narrow = one.to_pylist()[0]
    assert wide["t_low"] < narrow["t_low"] < narrow["t_high"] < wide["t_high"]


def test_a_total_has_the_noise_of_its_groups(few: Sources) -> None:
    """The width of a sum of k groups is about √k times that of one; of an average, that of the sum over k."""
    release = few.session.sql("SELECT b, COUNT(*) AS n FROM t GROUP BY b").release(epsilon=1)
    one = release.interval().to_pylist()[0]
    found = (
        release.sql("SELECT SUM(n) AS s, AVG(n) AS m, COUNT(*) AS k FROM answer").interval().to_pylist()[0]
    )
    width = found["s_high"] - found["s_low"]
    assert 1.5 < width / (one["n_high"] - one["n_low"]) < 3.5
    assert found["m_high"] - found["m_low"] == pytest.approx(width / 6)


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("SELECT MAX(n) AS m FROM answer", "m", "MAX of noisy numbers is biased"),
        ("SELECT a, b, RANK() OVER (ORDER BY n) AS m FROM answer", "m", "order of noisy numbers"),
        ("SELECT SUM(n) AS m FROM answer WHERE n > 9", "m", "noise decides which rows"),
        ("SELECT COUNT(*) FILTER (WHERE n > 9) AS m FROM answer", "m", "comparisons of noisy numbers"),
        ("SELECT CORR(n, s) AS m FROM answer", "m", "CORR of noisy numbers is biased"),
        ("SELECT 1 / (SUM(n) - {total}) AS m FROM answer", "m", "too few draws"),
        ("SELECT n AS m FROM answer", "m", "not told apart"),
        ("SELECT a, b, LIST(n) AS m FROM answer GROUP BY a, b", "m", "biased"),
        ("SELECT AVG(m) AS m FROM (SELECT n AS m FROM answer ORDER BY n LIMIT 3)", "m", "noise decides"),
    ],
)
def test_a_number_that_noise_makes_biased_has_no_interval(
    few: Sources, text: str, name: str, reason: str
) -> None:
    release = few.ask(1, epsilon=1)
    total = release.sql("SELECT SUM(n) AS t FROM answer").item()
    found = release.sql(text.format(total=int(total) - 1))
    (note,) = [each for each in found.caveats if each.startswith("No interval")]
    assert note.startswith(f"No interval for {name}: ")
    assert reason in note
    assert note in str(found)
    assert f"{name}_low" not in found.interval().column_names


def test_a_result_is_like_an_answer(few: Sources) -> None:
    pytest.importorskip("polars")
    release = few.ask(2, epsilon=1)
    found = release.sql("SELECT a, SUM(n) AS n, MAX(s) AS s FROM answer GROUP BY a ORDER BY a")
    assert found.columns == ["a", "n", "s"]
    assert len(found) == found.to_arrow().num_rows == len(found.to_pandas()) == len(found.to_polars())
    assert list(found.to_pandas(intervals=True)) == ["a", "n", "n_low", "n_high", "s"]
    assert found.interval().column_names == ["a", "n_low", "n_high"]
    assert str(found).splitlines()[0].split() == ["a", "n", "95", "%", "interval", "s"]
    assert "nothing was charged" in str(found)
    assert found.plot().spec
    assert found.plot("s").spec
    assert set(found.to_dict()) == {"columns", "interval", "bias"}
    with pytest.raises(sf.errors.UsageError, match="SF-N112"):
        found.item()
    with pytest.raises(sf.errors.UsageError, match="SF-N112"):
        found.plot("a")


def test_groups_without_a_significant_count_are_left_out(few: Sources) -> None:
    release = few.ask(3, epsilon=1)
    counted = release.sql("SELECT COUNT(*) AS k FROM answer")
    every = release.all_groups().sql("SELECT COUNT(*) AS k FROM answer")
    assert counted.item() < 20
    assert every.item() == 240
    assert any("left out as if empty: r.all_groups().sql(…)" in each for each in counted.caveats)
    assert not every.caveats


def test_nothing_is_charged(few: Sources) -> None:
    release = few.ask(4, epsilon=1)
    before = few.session.budget.to_dict()
    release.sql("SELECT SUM(n) AS t FROM answer")
    assert few.session.budget.to_dict() == before


def test_levels_that_agree_have_no_intervals(few: Sources) -> None:
    sql = "SELECT b, GROUPING(b) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (b)"
    text = "SELECT SUM(n) FILTER (WHERE g = 1) AS whole, SUM(n) FILTER (WHERE g = 0) AS parts FROM answer"
    found = few.session.sql(sql).release(epsilon=1).sql(text)
    whole, parts = found.to_arrow().to_pylist()[0].values()
    assert abs(whole - parts) <= 1
    assert "noise in common" in found.caveats[0]
