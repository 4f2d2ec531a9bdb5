"""Every caveat is true: each is measured on a table where it matters, without noise unless it is about noise.

A caveat is made by a function of curator/plan/caveats.py alone, which the types require of a plan. Each of
these functions has a test here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise
from sfumato.curator.plan import caveats
from sfumato.curator.plan.caveats import Caveat

Measured = Callable[[Path], None]
MEASURED: dict[Callable[..., Caveat], Measured] = {}


def measures(caveat: Callable[..., Caveat]) -> Callable[[Measured], Measured]:
    """Name the caveat that a test measures."""

    def register(test: Measured) -> Measured:
        assert caveat not in MEASURED
        MEASURED[caveat] = test
        return test

    return register


def make_lab(folder: Path, rows: dict[str, list[Any]], columns: dict[str, Any], most: int = 20) -> sf.Lab:
    """A lab with the table t, whose units are numbered by the column who."""
    lab = sf.create(folder / "lab")
    unit, budget = sf.Unit("who", max_rows=most), sf.Budget(10.0**6, 1e-3)
    lab.register("t", pa.table(rows), unit=unit, columns=columns, budget=budget, confirm_losses=True)
    return lab


def ask(query: Any, *said: Caveat) -> list[dict[str, Any]]:
    """The rows of an answer without noise, which has these caveats in its quote and in itself."""
    with without_noise():
        quote, release = query.quote(epsilon=1), query.release(epsilon=1)
        assert set(said) <= set(release.caveats), release.caveats
        assert set(said) <= {*quote.caveats, caveats.lucky()}
        rows: list[dict[str, Any]] = release.to_arrow().to_pylist()
        return rows


def number(lab: sf.Lab, sql: str, *said: Caveat) -> Any:
    """The only number of an answer without noise, which has these caveats."""
    ((value,),) = (row.values() for row in ask(lab.session().sql(sql), *said))
    return value


@measures(caveats.truncated)
def _(folder: Path) -> None:
    lab = make_lab(folder, {"who": [1] * 7 + [2]}, {}, most=3)
    table = lab.table("t")
    assert number(lab, "SELECT COUNT(*) FROM t", caveats.truncated(table)) == 4
    # All units are counted, so nothing is said of their rows.
    everyone = lab.session().sql("SELECT COUNT(DISTINCT who) FROM t")
    assert list(ask(everyone)[0].values()) == [2]
    assert everyone.quote(epsilon=2).caveats == ()
    # Of several tables each is named.
    more = pa.table({"who": [1, 1, 1, 2]})
    lab.register("more", more, unit=sf.Unit("who", 2), columns={})
    said = [caveats.truncated(lab.table(name), named=True) for name in ("t", "more")]
    assert said == ["At most 3 rows per who of 't' are used", "At most 2 rows per who of 'more' are used"]
    pairs = "SELECT COUNT(*) FROM t JOIN more ON t.who = more.who"
    assert number(lab, pairs, *said) == 3 * 2 + 1


SPENDING: dict[str, list[Any]] = {"who": [1] * 6 + [2], "ward": [*"AABBCC", "A"], "cost": [10] * 7}
SPENT = {"ward": sf.one_of("A", "B", "C"), "cost": sf.between(0, 20, step=1)}
BY_WARD = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"


@measures(caveats.limited)
def _(folder: Path) -> None:
    session = make_lab(folder, SPENDING, SPENT).session()

    def counted(groups: int, rows: int, said: str) -> list[int]:
        found = ask(session.sql(BY_WARD).bounded(groups=groups, rows=rows), Caveat(said))
        return sorted((row["n"] for row in found if row["ward"] is not None), reverse=True)

    assert sum(counted(2, 1, "Of each who at most 2 groups and 1 row in each are used")) == 3
    assert sum(counted(1, 2, "Of each who at most 1 group and 2 rows in it are used")) == 3
    assert counted(9, 1, "Of each who at most 1 row in each group is used") == [2, 1, 1]
    total = session.sql("SELECT COUNT(*) AS n FROM t").bounded(groups=1, rows=2)
    assert ask(total, Caveat("Of each who at most 2 rows are used")) == [{"n": 3}]
    # All rows of a unit are added up before they are clipped, so no bound on rows is named.
    for groups, whole, most in ((1, 60 + 10, "clipped to 1,000"), (1, 15 + 10, "clipped to 15")):
        limit = 1000 if whole == 70 else 15
        query = session.sql("SELECT SUM(cost) AS s FROM t").clipped(limit, groups=groups)
        assert ask(query) == [{"s": whole}]
        said = query.quote(epsilon=2).caveats
        assert any(most in each for each in said)
        assert not any(each.startswith("Of each who") for each in said)
    sums = session.sql("SELECT ward, SUM(cost) AS s FROM t GROUP BY ward").clipped(1000, groups=1)
    found = ask(sums, Caveat("Of each who at most 1 group is used"))
    assert sum(row["s"] for row in found if row["ward"] is not None) == 20 + 10


@measures(caveats.clamped)
def _(folder: Path) -> None:
    columns = {
        "x": sf.between(0, 10, step=1),
        "day": sf.between(date(2026, 1, 1), date(2026, 1, 31)),
    }
    rows = {"who": [1, 2, 3], "x": [4, 500, -70], "day": [date(2026, 1, 5), date(2027, 1, 1), None]}
    lab = make_lab(folder, rows, columns)
    assert number(lab, "SELECT SUM(x) FROM t", caveats.clamped("Numbers")) == 4 + 10 + 0
    last = "SELECT COUNT(*) FROM t WHERE day = DATE '2026-01-31'"
    assert number(lab, last, caveats.clamped("Dates")) == 1
    both = "SELECT SUM(x) FROM t WHERE day = DATE '2026-01-31'"
    assert number(lab, both, caveats.clamped("Numbers and dates")) == 10
    assert "Numbers" not in str(lab.session().sql("SELECT COUNT(*) FROM t").quote(epsilon=1).caveats)


@measures(caveats.stepped)
def _(folder: Path) -> None:
    rows = {"who": [1], "x": [1 / 3], "y": [1 / 3]}
    lab = make_lab(folder, rows, {"x": sf.between(0, 1000), "y": sf.between(0, 1000, step=0.25)})
    off = abs(number(lab, "SELECT SUM(x) FROM t", caveats.stepped()) - 1 / 3)
    assert 0 < off < 1000 / 10**6
    declared = lab.session().sql("SELECT SUM(y) FROM t")
    assert list(ask(declared)[0].values()) == [0.25]
    assert caveats.stepped() not in declared.quote(epsilon=2).caveats


@measures(caveats.skipped)
def _(folder: Path) -> None:
    rows = {"who": [1, 2], "x": [3, 3], "y": [0, 4]}
    lab = make_lab(folder, rows, {"x": sf.between(0, 9, step=1), "y": sf.between(0, 9, step=1)})
    assert number(lab, "SELECT SUM(LEAST(x / y, 2)) FROM t", caveats.skipped()) == 2 + 0.75
    assert number(lab, "SELECT SUM(GREATEST(x // y, -1)) FROM t", caveats.skipped()) == -1
    assert number(lab, "SELECT SUM(LEAST(x % y, 7)) FROM t", caveats.skipped()) == 7 + 3
    # No quotient is skipped where its divisor is not 0, or where nobody typed LEAST or GREATEST.
    for others, sum_of_both in (
        ("CASE WHEN y > 0 THEN x / y END", 0.75),
        ("LEAST(x // (y + 1), 1)", 1 + 0),
        ("LEAST(x % 2, 1)", 2),
        ("ABS(x // y)", 0),
        ("ABS(x / y)", 0.75),
        ("CASE WHEN EXP(-x / y * 1000) > 0.5 THEN 1 ELSE 0 END", 0),
    ):
        without = f"SELECT SUM({others}) FROM t"
        assert number(lab, without) == pytest.approx(sum_of_both, abs=1e-6)
        assert caveats.skipped() not in lab.session().sql(without).quote(epsilon=2).caveats, others


@measures(caveats.undeclared)
def _(folder: Path) -> None:
    rows = {"who": [1, 2, 3], "ward": ["A", "elsewhere", None]}
    lab = make_lab(folder, rows, {"ward": sf.one_of("A", "B")})
    assert number(lab, "SELECT COUNT(ward) FROM t", caveats.undeclared()) == 1
    assert number(lab, "SELECT COUNT(*) FROM t WHERE ward IS NULL", caveats.undeclared()) == 2


@measures(caveats.replaced)
def _(folder: Path) -> None:
    lab = make_lab(folder, {"who": [1, 2], "tip": [8, None]}, {"tip": sf.between(0, 10, step=1, missing=4)})
    assert number(lab, "SELECT AVG(tip) FROM t", caveats.replaced()) == pytest.approx(6)
    assert number(lab, "SELECT COUNT(tip) FROM t", caveats.replaced()) == 2


@measures(caveats.left_out_keys)
def _(folder: Path) -> None:
    """With a thousand values each, two keys have no room for groups of missing keys."""
    whole = sf.between(0, 999, step=1)
    lab = make_lab(folder, {"who": [1, 2, 3], "a": [1, 2, None], "b": [5, 5, 5]}, {"a": whole, "b": whole})
    found = ask(lab.session().sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b"), caveats.left_out_keys())
    assert sum(row["n"] for row in found) == 2


@measures(caveats.hidden_keys)
def _(folder: Path) -> None:
    rows = {"who": list(range(501)), "note": ["often"] * 500 + ["once"]}
    query = make_lab(folder, rows, {"note": sf.text()}).session().sql(BY_WARD.replace("ward", "note"))
    release = query.release(epsilon=1, delta=1e-9)
    assert caveats.hidden_keys() in release.caveats
    # A group of one unit is shown with a probability of at most δ.
    assert release.to_arrow()["note"].to_pylist() == ["often"]


@measures(caveats.lucky)
def _(folder: Path) -> None:
    """Of 40 equal groups the one with the largest noise is shown: its noise is above 0 but once in 2^40."""
    rows = {"who": list(range(4000)), "x": [at % 40 for at in range(4000)]}
    session = make_lab(folder, rows, {"x": sf.between(0, 39, step=1)}).session()
    query = session.sql("SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 1")
    for at in range(5):
        release = query.release(epsilon=0.1 + at / 1000)
        assert caveats.lucky() in release.caveats
        assert release.to_arrow()["n"].to_pylist()[0] > 100
    exact = session.sql("SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY x")
    assert caveats.lucky() not in exact.quote(epsilon=1).caveats


def _equal_groups(folder: Path) -> sf.Session:
    """Forty groups of 100 units each, and forty that are empty."""
    rows = {"who": list(range(4000)), "x": [at % 40 for at in range(4000)]}
    return make_lab(folder, rows, {"x": sf.between(0, 79, step=1, missing=0)}, most=1).session()


BY_X = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"


@measures(caveats.left_out_groups)
def _(folder: Path) -> None:
    release = _equal_groups(folder).sql(BY_X).release(epsilon=1)
    counted = release.sql("SELECT COUNT(*) AS k FROM answer")
    left_out = release.all_groups().sql("SELECT COUNT(*) AS k FROM answer").item() - counted.item()
    assert left_out == 80 - counted.item() > 0
    assert counted.caveats[0] == caveats.left_out_groups(left_out)
    assert (
        caveats.left_out_groups(1)
        == "1 group without a significant count is left out as if empty: r.all_groups().sql(…)"
    )


@measures(caveats.without_interval)
def _(folder: Path) -> None:
    """The MAX of 40 equal counts is too large: all 40 are at most 100 once in 2^40 answers."""
    query = _equal_groups(folder).sql(BY_X)
    for at in range(5):
        found = query.release(epsilon=0.5 + at / 100).sql("SELECT MAX(n) AS m FROM answer")
        assert found.item() > 100
        assert caveats.without_interval("m", "MAX of noisy numbers is biased") in found.caveats
        assert found.interval().column_names == []


@measures(caveats.without_intervals)
def _(folder: Path) -> None:
    release = _equal_groups(folder).sql(BY_X).release(epsilon=1)
    found = release.sql("SELECT COLUMNS('n') FROM answer")
    assert caveats.without_intervals() in found.caveats
    assert found.interval().column_names == []
    followed = release.sql("SELECT x, n FROM answer")
    assert caveats.without_intervals() not in followed.caveats
    assert followed.interval().column_names == ["x", "n_low", "n_high"]


@measures(caveats.chosen_rows)
def _(folder: Path) -> None:
    """The largest of 400 equal counts is chosen, by the release and by SQL over it.

    Its interval has the exact number in 95 of 100 answers, so all of 4 answers miss it once in 160,000. An
    interval for one count alone misses it nearly always: 400 such intervals have it once in 25,000.
    """
    rows = {"who": list(range(16_000)), "x": [at % 400 for at in range(16_000)]}
    columns = {"x": sf.between(0, 399, step=1, missing=0)}
    session = make_lab(folder, rows, columns, most=1).session()
    select, last = "SELECT x, 2 * n AS m FROM answer", "ORDER BY {} DESC LIMIT 1"
    misses = [0, 0]
    for at in range(4):
        one = session.sql(f"{BY_X} {last.format('n')}").release(epsilon=0.5 + at / 100).sql(select)
        every = session.sql(BY_X).release(epsilon=0.505 + at / 100)
        for place, found in enumerate((one, every.sql(f"{select} {last.format('m')}"))):
            assert caveats.chosen_rows() in found.caveats
            ends = found.interval().to_pydict()
            misses[place] += not ends["m_low"][0] <= 80 <= ends["m_high"][0]
    assert max(misses) < 4


@measures(caveats.clipped_units)
def _(folder: Path) -> None:
    session = make_lab(folder, SPENDING, SPENT).session()
    total = session.sql("SELECT SUM(cost) AS s FROM t").clipped(15)
    assert ask(total, Caveat("What one who adds is clipped to 15")) == [{"s": 15 + 10}]
    each = session.sql("SELECT ward, SUM(cost) AS s FROM t GROUP BY ward").clipped(15, groups=3)
    found = ask(each, Caveat("What one who adds is clipped to 15 in each group"))
    assert [row["s"] for row in found if row["ward"]] == [15 + 10, 15, 15]


@measures(caveats.clipped_values)
def _(folder: Path) -> None:
    """Of 4,000 units 40 have a value beyond the end, as noisy counts say, and count as the end."""
    rows = {"who": list(range(4000)), "x": [7] * 3960 + [900] * 40, "y": [1] * 4000}
    whole = sf.between(0, 1000, step=1)
    query = make_lab(folder, rows, {"x": whole, "y": whole}).session().sql("SELECT SUM(x * y) AS s FROM t")
    with without_noise():
        release = query.release(epsilon=1, clip="auto")
    entry, outside = release.receipt.entry - 2, "below 0 ± 101, above 40 ± 93 of 4,000"
    said = caveats.clipped_values("s", Fraction(0), Fraction(200), outside, Fraction(1, 10), entry)
    assert said in release.caveats
    assert release.to_arrow()["s"].to_pylist() == [7 * 3960 + 200 * 40]


@measures(caveats.hidden_values)
def _(folder: Path) -> None:
    rows = {"who": list(range(10)), "x": [7] * 10, "y": [1] * 10}
    whole = sf.between(0, 1000, step=1)
    query = make_lab(folder, rows, {"x": whole, "y": whole}).session().sql("SELECT SUM(x * y) AS s FROM t")
    with without_noise():
        release = query.release(epsilon=0.01, clip="auto")
    assert caveats.hidden_values(Fraction(1, 1000), release.receipt.entry - 2) in release.caveats
    assert release.to_arrow()["s"].to_pylist() == [70]


@measures(caveats.estimated_bias)
def _(folder: Path) -> None:
    """3,000 units have 3 rows and 30 have 50. What bounds leave out is estimated from counts by size."""
    rows = {"who": [at // 3 for at in range(9000)] + [5000 + at // 50 for at in range(1500)]}
    query = make_lab(folder, rows, {}, most=200).session().sql("SELECT COUNT(*) AS n FROM t")
    with without_noise():
        tuned = query.tune(epsilon=1, for_epsilon=0.01)
    said = caveats.estimated_bias(tuned.picked.bias)
    ((counted,),) = (row.values() for row in ask(tuned, said))
    lost = 1 - counted / 10_500
    assert lost > 0.1
    assert float(said.split("about ")[1].split(" %")[0]) == pytest.approx(100 * lost, rel=0.2)


STAR = {"a": [1, 1, 1, 1, 1, 2], "b": [2, 3, 4, 5, 6, 3]}


def _graph(folder: Path, unit: Any) -> Any:
    lab = sf.create(folder / "lab")
    lab.register("g", pa.table(STAR), unit=unit, budget=sf.Budget(1000))
    return lab.session().graph("g")


@measures(caveats.largest_degree)
def _(folder: Path) -> None:
    query = _graph(folder, sf.Edge("a", "b", max_degree=3)).degrees()
    with without_noise():
        release = query.release(epsilon=100)
        assert release.caveats == (caveats.largest_degree(3),)
        # One node has 5 edges, two have 2, and three have 1.
        assert release.to_arrow()["nodes"].to_pylist() == [3, 2, 1]


@measures(caveats.dropped_edges)
def _(folder: Path) -> None:
    query = _graph(folder, sf.Node("a", "b", max_degree=2)).edges()
    with without_noise():
        release = query.release(epsilon=100)
    assert query.quote(epsilon=1).caveats == (caveats.dropped_edges(2),)
    assert (
        1 <= release.value <= 3
    )  # of 6: those of node 1 that are not among its two, or not of their other end


@measures(caveats.dropped_nodes)
def _(folder: Path) -> None:
    query = _graph(folder, sf.Node("a", "b", max_degree=1)).degrees()
    with without_noise():
        release = query.release(epsilon=100)
        assert release.caveats == (caveats.dropped_edges(1), caveats.dropped_nodes())
        assert release.to_arrow()["nodes"].to_pylist()[0] <= 4  # of 6 nodes, four of which have node 1 alone


@measures(caveats.no_possible_row)
def _(folder: Path) -> None:
    lab = make_lab(folder, {"who": [1], "x": [10**9]}, {"x": sf.between(0, 10, step=1)})
    assert number(lab, "SELECT COUNT(*) FROM t WHERE x > 1000", caveats.no_possible_row()) == 0


def _stream(folder: Path, rows: list[tuple[int, int]], most: int = 9, **asked: Any) -> tuple[sf.Lab, Any]:
    """A lab with pairs of who and day as rows, and a stream of days 0 to 4 that is exact."""
    lab = make_lab(folder, dict(zip(("who", "day"), map(list, zip(*rows, strict=True)), strict=True)),
                   {"day": sf.between(0, 20, step=1)}, most)  # fmt: skip
    lab.set_through("t", day=4)
    asked = {"measure": sf.count(), "horizon": 5, "rho": 10.0**4, **asked}
    return lab, lab.session().stream("t", time="day", **asked)


@measures(caveats.late_rows)
def _(folder: Path) -> None:
    rows = [(1, 0), (2, 1)]
    lab, stream = _stream(folder, rows)
    assert caveats.late_rows() in stream.quote().caveats
    assert stream.run().values().round().tolist() == [1, 2, 2, 2, 2]
    late = pa.table({"who": [1, 2, 3, 4], "day": [0, 1, 1, 5]})
    lab.advance("t", late, through={"day": 4})
    again = lab.session().stream("t", time="day", measure=sf.count(), horizon=5, rho=10.0**4)
    assert again.run().values().round().tolist() == [1, 2, 2, 2, 2]


@measures(caveats.limited_ticks)
def _(folder: Path) -> None:
    rows = [(1, day) for day in range(5) for _ in range(4)]
    _, stream = _stream(folder, rows, 20, participations=2, contribution=3, separation=2)
    said = Caveat("At most 2 ticks per who with 3 rows each count, 2 ticks apart")
    assert said in stream.quote().caveats
    assert stream.run().values().round().tolist() == [3, 3, 6, 6, 6]


@measures(caveats.limited_visits)
def _(folder: Path) -> None:
    rows = [(1, 0), (1, 2), (1, 4), (2, 4)]
    _, stream = _stream(folder, rows, measure=sf.units("who"), window=1, participations=2)
    assert Caveat("Each who comes at most 2 times") in stream.quote().caveats
    assert stream.run().values().round().tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("caveat", MEASURED, ids=lambda caveat: caveat.__name__)
def test_a_caveat_says_what_is_measured(caveat: Callable[..., Caveat], tmp_path: Path) -> None:
    MEASURED[caveat](tmp_path)


def test_every_caveat_is_measured() -> None:
    made = {
        each
        for name, each in inspect.getmembers(caveats, inspect.isfunction)
        if each.__annotations__.get("return") == "Caveat" and not name.startswith("_")
    }
    assert made == set(MEASURED)


def test_caveats_are_made_in_one_module() -> None:
    """What types cannot see: a call of the class elsewhere."""
    sources = Path(sf.__file__).parent
    own = Path(caveats.__file__)
    found = [
        file
        for file in sources.rglob("*.py")
        if file != own and "Caveat" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Caveat"
    ]
    assert found == []
