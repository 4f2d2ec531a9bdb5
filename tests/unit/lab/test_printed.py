"""Everything that people print, in its first, usual and spent state: no crash and no text of the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

_MISPRINTS = re.compile(
    r"\bnan\b|\bNone\b|\binf\b|object at 0x|Fraction\(|np\.float|\bdtype|-0\.0+\b|\de\+\d|\{[a-z_]+\}"
)
"""Marks of values that were printed as the machine has them."""
_TEXTS = ("__str__", "__repr__", "_repr_html_", "lines", "list_rows", "headings", "to_markdown")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    rng, rows = np.random.default_rng(1), 1000
    days = [date(2026, 1, 1) + timedelta(int(day)) for day in rng.integers(0, 8, rows)]
    table = {
        "who": np.arange(rows) // 2,
        "a": rng.uniform(0, 10, rows),
        "b": rng.uniform(0, 1e6, rows),
        "ward": rng.choice(["A", "B"], rows),
        "sex": rng.choice(["f", "m"], rows),
        "day": pa.array(days),
    }
    columns = {
        "a": sf.between(0, 10),
        "b": sf.between(0, 10**6, missing=5),
        "ward": sf.one_of("A", "B"),
        "sex": sf.one_of("f", "m"),
        "day": sf.between(date(2026, 1, 1), date(2026, 1, 31)),
    }
    lab = sf.create(tmp_path_factory.mktemp("printed") / "lab")
    unit, budget = sf.Unit("who", max_rows=2), sf.Budget.of(5000, 1e-4)
    lab.register("t", pa.table(table), unit=unit, columns=columns, budget=budget)
    lab.set_through("t", day=date(2026, 1, 5))
    return lab


SQL = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "all kinds": "SELECT ward, COUNT(*) AS n, AVG(a), SUM(b), MEDIAN(a), MAX(b), MODE(sex), STDDEV(b), "
    "CORR(a, b) FROM t GROUP BY ward",
    "almost nobody": "SELECT AVG(a), STDDEV(a), CORR(a, b) FROM t WHERE a > 9.9999 AND b < 1",
    "nobody": "SELECT COUNT(*) AS n FROM t WHERE a > 100",
    "days": "SELECT day, COUNT(*) AS n, AVG(b) FROM t GROUP BY day",
    "levels": "SELECT ward, sex, AVG(a) FROM t GROUP BY ROLLUP (ward, sex)",
    "no group": "SELECT ward, AVG(a) FROM t GROUP BY ward HAVING COUNT(*) > 1e8",
}
SPENT: dict[str, dict[str, Any]] = {
    "little": {"epsilon": 0.001},
    "usual": {"epsilon": 1},
    "gaussian": {"rho": 0.01},
}
MEASURES: dict[str, Callable[[Any], Any]] = {
    "together": lambda s: s.ask_together(
        ["SELECT COUNT(*) FROM t", "SELECT ward, COUNT(*) FROM t GROUP BY ward"]
    ),
    "top": lambda s: s.table("t").top("ward", k=1),
    "distance": lambda s: s.table("t").distance("COUNT(*) >= 100"),
    "subsample": lambda s: s.table("t").subsample(sf.median("a"), blocks=20),
    "bounds": lambda s: s.table("t").bounds("b", keep=0.9),
    "curve": lambda s: s.table("t").curve("b"),
    "parts": lambda s: s.table("t").partition("ward").agg(n=sf.count()),
    "units": lambda s: s.table("t").units().count(),
    "tuned": lambda s: s.sql("SELECT SUM(a) FROM t").tune(epsilon=1),
    "clipped": lambda s: s.sql("SELECT ward, SUM(b) FROM t GROUP BY ward").clipped(10**5),
}


def check(*things: Any) -> None:
    """Print things in every way that they know, and look for misprints."""
    for thing in things:
        for way in _TEXTS:
            found = getattr(thing, way, None)
            text = str(found() if callable(found) else found or "")
            wrong = _MISPRINTS.search(text)
            assert wrong is None, (
                type(thing).__name__,
                way,
                text[max(0, wrong.start() - 80) : wrong.end() + 40],
            )
        if hasattr(thing, "to_dict"):
            json.dumps(thing.to_dict())
        if hasattr(thing, "plot"):
            try:
                thing.plot().to_json()
            except SfumatoError:
                continue  # there is nothing to draw, which an error says


@pytest.mark.parametrize("spend", SPENT)
@pytest.mark.parametrize("question", SQL)
def test_questions_quotes_and_answers(lab: sf.Lab, question: str, spend: str) -> None:
    query = lab.session().sql(SQL[question])
    check(query, query.quote(**SPENT[spend]))
    release = query.release(**SPENT[spend])
    check(release, release.receipt, query.quote(**SPENT[spend]), query.release(**SPENT[spend]))
    assert str(release).count("r.caveats") <= 1


@pytest.mark.parametrize("measure", MEASURES)
def test_other_measures(lab: sf.Lab, measure: str) -> None:
    asked = MEASURES[measure](lab.session())
    check(asked, asked.quote(epsilon=1))
    released = asked.release(epsilon=1)
    check(*(released if isinstance(released, tuple) else (released,)), asked.quote(epsilon=1))


def test_streams_before_and_after_their_first_tick(lab: sf.Lab) -> None:
    for asked in ({"measure": sf.count()}, {"measure": sf.mean("b"), "by": "ward"}):
        stream = lab.session().stream("t", time="day", horizon=8, rho=0.1, **asked)  # type: ignore[arg-type]
        check(stream, stream.quote())
        check(stream.run(), stream, stream.quote())


@pytest.mark.slow
def test_fits_and_synthetic_tables(lab: sf.Lab) -> None:
    session = lab.session()
    check(session.oracle("t", epsilon=1))
    model = sf.learn.LogisticRegression(epsilon=0.5)
    assert repr(model)
    fitted = session.fit(model, table="t", features=["a", "b"], target="ward")
    check(fitted.guarantee_, session.evaluate(fitted, table="t", target="ward", epsilon=0.5))
    synthetic = session.fit(sf.synth.Marginals(epsilon=0.5, delta=1e-8), table="t", columns=["a", "ward"])
    check(synthetic.guarantee_)


def test_what_a_lab_and_a_session_show(lab: sf.Lab) -> None:
    session = lab.session()
    check(lab, session, lab.budget, session.budget, session.table("t"), session.tables, lab.ledger)
    check(lab.verify(), *lab.published(), *lab.requests())
    lab.publish("SELECT COUNT(*) FROM t", epsilon=0.1)
    check(*lab.published())


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (sf.between(0, 5000), "between(0, 5000)"),
        (sf.between(-7.5, 10**6, step=0.125, missing=0, constant=True),
         "between(-7.5, 1000000, step=0.125, missing=0, constant=True)"),
        (sf.one_of("A", "B", missing=False), "one_of('A', 'B', missing=False)"),
        (sf.text(), "text()"),
        (sf.Unit("who", 20, of="people"), "Unit('who', max_rows=20, of='people')"),
        (sf.Unit("who", max_rows=sf.choose(epsilon=0.5)), "Unit('who', max_rows=choose(epsilon=0.5))"),
        (sf.ROW, "ROW"),
        (sf.Budget.of(12_000, 1e-6), "Budget(epsilon=12000, delta=1e-06)"),
        (sf.privacy.Gaussian(0.001), "Gaussian(sigma=0.001)"),
        (sf.privacy.Pure(Fraction(1, 3)), "Pure(epsilon=Fraction(1, 3))"),
    ],
)  # fmt: skip
def test_what_is_declared_is_shown_as_it_is_typed(declared: Any, text: str) -> None:
    assert repr(declared) == text


def test_explanations_and_local_reports() -> None:
    for epsilon in (1e-6, 1, 8):
        check(sf.privacy.explain(epsilon=epsilon, delta=1e-6, people=10_000))
    mechanism = sf.local.RandomizedResponse(epsilon=1)
    check(mechanism.estimate(mechanism.privatize([0, 1, 1])))


def test_packages_are_written_of_the_same_texts(lab: sf.Lab, tmp_path: Path) -> None:
    release = lab.session().sql(SQL["all kinds"]).release(epsilon=1)
    folder = lab.package(release, tmp_path / "pack")
    for name in ("methods.md", "card.md", "README.md"):
        assert not _MISPRINTS.search((folder / name).read_text(encoding="utf-8"))
