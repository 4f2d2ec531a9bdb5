"""Questions and streams behind the curator, replayed on two tables that differ by one person."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.catalogue.scratch_labs import create_scratch_lab
from sfumato.audit.gate import question
from sfumato.audit.replay import replay
from sfumato.privacy.events import Gaussian

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.audit.replay import Replayed
    from sfumato.lab.lab import Lab

_DAYS = 6
SHAPED = {
    "average beside a count": "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM {table} GROUP BY ward",
    "several averages": "SELECT COUNT(*) AS n, AVG(cost) AS cost, AVG(age) AS age FROM {table}",
    "variance": "SELECT COUNT(*) AS n, VARIANCE(cost) AS cost FROM {table}",
}
"""Questions whose sums share a noise where pure ε adds up."""
TOGETHER = (
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM {table} GROUP BY ward",
    "SELECT ward, day, COUNT(*) AS n FROM {table} GROUP BY ward, day",
    "SELECT COUNT(*) AS n, MEDIAN(age) AS age FROM {table}",
)
"""Questions that are asked together."""
COLUMNS_TOGETHER = (
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, AVG(age) AS age FROM {table} GROUP BY ward",
    "SELECT ward, day, AVG(cost) AS cost FROM {table} GROUP BY ROLLUP (ward, day)",
)
"""Questions asked together whose sums share a noise: of several columns, and at several levels."""
QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM {table}",
    "groups": "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM {table} WHERE age >= 65 GROUP BY ward",
    "sums": "SELECT SUM(cost) AS total, AVG(age) AS age FROM {table} WHERE NOT ward = 'A'",
    "people": "SELECT COUNT(DISTINCT who) AS people FROM {table}",
    "spread": "SELECT ward, COUNT(DISTINCT who) AS people, STDDEV(cost) AS spread FROM {table} GROUP BY ward",
    "median": "SELECT MEDIAN(age) AS age FROM {table}",
    "medians of groups": "SELECT ward, MEDIAN(cost) AS cost FROM {table} GROUP BY ward",
    "quartiles": "SELECT QUANTILE(age, 0.25) AS a, MEDIAN(age) AS b, QUANTILE(age, 0.75) AS c FROM {table}",
    "each person": "SELECT AVG(n) AS n FROM (SELECT who, COUNT(*) AS n FROM {table} GROUP BY who) AS each",
}
"""Shapes of questions; the ε of each differs by round, because an answered question is free.

Quantiles are chosen, and the rows around them are counted for their intervals: both are replayed.
"""
_TOTAL = "SELECT SUM(cost) AS total FROM {table}"


@cache
def _sources() -> dict[str, pa.Table]:
    """Return a full table, the rest without its most extreme person, and one with them in a single ward."""
    import pyarrow as pa

    rng = np.random.default_rng(5)
    who = np.array([0] * 40 + rng.integers(1, 30, size=100).tolist())
    far = who == 0
    full = pa.table(
        {
            "who": who,
            "age": np.where(far, 200.0, rng.uniform(0, 120, len(who))),
            "cost": np.where(far, 1e9, rng.normal(500, 2000, len(who))),
            "ward": rng.choice(["A", "B", "C", "D"], len(who)),
            "day": np.arange(len(who)) % _DAYS,
        }
    )
    ward = np.where(far, "B", full["ward"].to_numpy(zero_copy_only=False))
    packed = full.set_column(full.column_names.index("ward"), "ward", pa.array(ward))
    return {"full": full, "rest": full.filter(pa.array(~far)), "packed": packed}


@cache
def _clinic() -> Lab:
    """Return a lab of its own with both tables."""
    from sfumato.curator.catalog.columns import between, one_of
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

    sources = _sources()
    lab = create_scratch_lab()
    columns = {
        "age": between(0, 110),
        "cost": between(-50, 5000),
        "ward": one_of("A", "B", "C"),
        "day": between(0, _DAYS - 1, step=1),
    }
    with catch_warnings():
        simplefilter("ignore")  # values outside the declaration are part of what is audited
        for about, delta in (("", 1e-6), ("pure_", 0)):
            unit = Unit("who", max_rows=7, of=f"{about}people")
            budget = Budget.of(epsilon=10**6, delta=delta)
            for name, source in sources.items():
                first = budget if name == "full" else None
                lab.register(
                    f"{about}{name}", source, unit=unit, columns=columns, budget=first, confirm_losses=True
                )
    for name in ("full", "rest"):
        lab.set_through(name, day=_DAYS)
    return lab


_ASKED = [0]


def _ask(sql: str, tables: tuple[str, str] = ("full", "rest")) -> Replayed:
    _ASKED[0] += 1
    return question(_clinic(), sql, tables, epsilon=1 + _ASKED[0] / 64)


def _curve() -> Replayed:
    """Replay the sums of a cumulative curve."""
    _ASKED[0] += 1
    epsilon, session = 1 + _ASKED[0] / 64, _clinic().session()

    def released(table: str) -> list[Any]:
        curve = session.table(table).curve("age", points=64).release(epsilon=epsilon)
        return list(curve.to_arrow().column(1).to_pylist())

    return replay(released, [("full", "rest")], claim=epsilon)


def _ask_together(tables: tuple[str, str], questions: tuple[str, ...], **spend: float) -> Replayed:
    """Replay questions that are asked together, for one charge."""
    _ASKED[0] += 1
    session = _clinic().session()
    # The spend of each round differs, because an answered question is free.
    amounts: Any = {name: each * (1 + _ASKED[0] / 64) for name, each in spend.items()}

    def released(table: str) -> list[Any]:
        asked = session.ask_together([sql.format(table=table) for sql in questions])
        return [each.to_arrow().to_pydict() for each in asked.release(**amounts)]

    claim = Gaussian((2 * amounts["rho"]) ** -0.5) if "rho" in amounts else amounts["epsilon"]
    return replay(released, [tables], claim=claim)


def _ask_gaussian(sql: str) -> Replayed:
    """Replay a question with Gaussian noise; all rows of a unit in one group move it furthest."""
    _ASKED[0] += 1
    return question(_clinic(), sql, ("packed", "rest"), rho=1 + _ASKED[0] / 64)


def _tune(sql: str) -> Replayed:
    """Replay the counts of units that the bounds of a question follow from, and what is picked."""
    _ASKED[0] += 1
    epsilon, session = 20 + _ASKED[0] / 64, _clinic().session()
    tables = ("full", "rest")
    return replay(
        lambda table: str(session.question(sql.format(table=table)).tune(epsilon=epsilon).picked),
        [tables],
        claim=epsilon,
    )


def _choose() -> Replayed:
    """Replay registrations whose bounds are chosen."""
    from sfumato.curator.catalog.columns import between
    from sfumato.privacy.bound_choice import choose
    from sfumato.privacy.units import Unit

    chosen, lab = choose(epsilon=10), _clinic()

    def registered(source: pa.Table) -> list[Any]:
        _ASKED[0] += 1
        name, columns = f"chosen{_ASKED[0]}", {"cost": between(chosen)}
        with catch_warnings():
            simplefilter("ignore")
            lab.register(name, source, unit=Unit("who", max_rows=chosen, of="people"), columns=columns)
        return [str(each.bound) for each in lab.table(name).chosen]

    return replay(registered, [(_sources()["full"], _sources()["rest"])], claim=20)


def _stream(measure: Any) -> Replayed:
    _ASKED[0] += 1
    rho = 0.5 + _ASKED[0] / 64

    def released(table: str) -> list[float]:
        asked = {"measure": measure, "participations": 3}
        stream = _clinic().session().stream(table, time="day", horizon=_DAYS, rho=rho, **asked)
        told: list[float] = stream.run().values().tolist()
        return told

    return replay(released, [("full", "rest")], claim=Gaussian((2 * rho) ** -0.5))


def _list_together(name: str, questions: tuple[str, ...]) -> list[CatalogueEntry]:
    """Return the entries of questions that are asked together, with Gaussian and with Laplace noise."""
    pure = ("pure_full", "pure_rest")
    return [
        CatalogueEntry("question", name, lambda *_: _ask_together(("full", "rest"), questions, rho=0.5)),
        CatalogueEntry("question", f"{name}, pure", lambda *_: _ask_together(pure, questions, epsilon=1)),
    ]


def list_doors() -> list[CatalogueEntry]:
    """Return an entry for every shape of question, for curves, for chosen bounds, and for streams."""
    from sfumato.queries.aggregations import count, mean

    asked = [
        CatalogueEntry("question", name, lambda *_, sql=sql: _ask(sql)) for name, sql in QUESTIONS.items()
    ]
    asked += [
        CatalogueEntry("question", name, lambda *_, sql=sql: _ask(sql, ("pure_full", "pure_rest")))
        for name, sql in SHAPED.items()
    ]
    asked += [
        entry
        for name, questions in (("together", TOGETHER), ("columns together", COLUMNS_TOGETHER))
        for entry in _list_together(name, questions)
    ]
    asked += [
        CatalogueEntry("question", f"{name}, Gaussian", lambda *_, sql=sql: _ask_gaussian(sql))
        for name, sql in SHAPED.items()
    ]
    streams = [
        CatalogueEntry("stream", "count over days", lambda *_: _stream(count())),
        CatalogueEntry("stream", "mean over days", lambda *_: _stream(mean("cost"))),
    ]
    bounds = [
        CatalogueEntry("question", "tuned bounds", lambda *_: _tune(QUESTIONS["count"])),
        CatalogueEntry("question", "tuned groups", lambda *_: _tune(QUESTIONS["groups"])),
        CatalogueEntry("question", "tuned sum", lambda *_: _tune(_TOTAL)),
        CatalogueEntry("question", "cumulative curve", lambda *_: _curve()),
        CatalogueEntry("question", "chosen bounds", lambda *_: _choose()),
    ]
    return [*asked, *bounds, *streams]
