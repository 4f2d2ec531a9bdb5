"""Frames ask what SQL asks: the same question, plan, price and request."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Catalog
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.question.measurement import Aggregate, Question
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.queries.frames import Frame
from sfumato.queries.sql import parse_question

LONGER: list[tuple[str, Callable[[Frame[Question, Any]], Question]]] = [
    ("SELECT MEDIAN(cost) AS m FROM visits", lambda t: t.agg(m=sf.median("cost"))),
    ("SELECT QUANTILE(cost, 0.9) AS q FROM visits", lambda t: t.agg(q=sf.quantile("cost", 0.9))),
    (
        "SELECT MIN(age) AS a, MAX(age) AS b FROM visits",
        lambda t: t.agg(a=sf.min("age"), b=sf.max("age")),
    ),
    (
        "SELECT VARIANCE(cost) AS v, STDDEV(age) AS s FROM visits",
        lambda t: t.agg(v=sf.variance("cost"), s=sf.stddev("age")),
    ),
    (
        "SELECT COVAR_SAMP(age, cost) AS c, CORR(age, cost) AS r FROM visits",
        lambda t: t.agg(c=sf.covariance("age", "cost"), r=sf.correlation("age", "cost")),
    ),
    (
        "SELECT COUNT(DISTINCT patient_id) AS n FROM visits",
        lambda t: t.agg(n=sf.units("patient_id")),
    ),
    ("SELECT SUM(cost * 2 + age) AS x FROM visits", lambda t: t.agg(x=sf.sum("cost * 2 + age"))),
    (
        "SELECT FLOOR(age / 10) AS d, COUNT(*) AS n FROM visits GROUP BY d",
        lambda t: t.group_by(d="FLOOR(age / 10)").agg(n=sf.count()),
    ),
    (
        """SELECT CASE WHEN age >= 0 AND age < 18 THEN '[0, 18)' WHEN age >= 18 AND age <= 110
           THEN '[18, 110]' END AS age, COUNT(*) AS count FROM visits GROUP BY 1""",
        lambda t: t.histogram("age", [0, 18, 110]),
    ),
    (
        """SELECT AVG(total) AS a FROM (SELECT patient_id, SUM(cost) AS total, COUNT(*) AS n FROM visits
           GROUP BY patient_id) WHERE n > 2""",
        lambda t: (
            t.per_unit("patient_id", total=sf.sum("cost"), n=sf.count())
            .where("n > 2")
            .agg(a=sf.mean("total"))
        ),
    ),
    (
        """SELECT AVG(x) AS a FROM (SELECT patient_id, ARG_MAX(cost, age) AS x, LAST(ward ORDER BY age) AS w
           FROM visits GROUP BY patient_id) WHERE w = 'A'""",
        lambda t: (
            t.per_unit("patient_id", x="ARG_MAX(cost, age)", w="LAST(ward ORDER BY age)")
            .where("w = 'A'")
            .agg(a=sf.mean("x"))
        ),
    ),
    (
        """SELECT AVG(n / m) AS a FROM (SELECT patient_id, COUNT(*) AS m FROM visits GROUP BY patient_id)
           LEFT JOIN (SELECT patient_id, COUNT(*) AS n FROM visits WHERE age > 64 GROUP BY patient_id)
           USING (patient_id)""",
        lambda t: (
            t.per_unit("patient_id", m=sf.count())
            .join(t.where("age > 64").per_unit("patient_id", n=sf.count()), using="patient_id", optional=True)
            .agg(a=sf.mean("n / m"))
        ),
    ),
    (
        """SELECT COUNT(*) AS count FROM (SELECT age - LAG(age) OVER (PARTITION BY patient_id ORDER BY age)
           AS x FROM visits) WHERE x > 2""",
        lambda t: (
            t.select(x="age - LAG(age) OVER (PARTITION BY patient_id ORDER BY age)").where("x > 2").count()
        ),
    ),
    (
        """SELECT COUNT(*) AS count FROM visits WHERE EXISTS
           (SELECT 1 FROM visits AS v WHERE v.patient_id = visits.patient_id AND v.age > 64)""",
        lambda t: t.where(
            "EXISTS (SELECT 1 FROM visits AS v WHERE v.patient_id = visits.patient_id AND v.age > 64)"
        ).count(),
    ),
    (
        "SELECT SUM(LN(LEAST(cost, 100))) AS x FROM visits WHERE REGEXP_MATCHES(ward, 'A|B')",
        lambda t: t.where("REGEXP_MATCHES(ward, 'A|B')").agg(x=sf.sum("LN(LEAST(cost, 100))")),
    ),
    (
        "SELECT AVG(x) AS a FROM (SELECT cost / 2 AS x FROM visits WHERE ward = 'A')",
        lambda t: t.where("ward = 'A'").select(x="cost / 2").agg(a=sf.mean("x")),
    ),
]
AGGREGATES: list[tuple[str, dict[str, Aggregate]]] = [
    ("COUNT(*) AS n", {"n": sf.count()}),
    ("COUNT(age) AS n", {"n": sf.count("age")}),
    ("SUM(cost) AS total", {"total": sf.sum("cost")}),
    ("AVG(cost) AS cost", {"cost": sf.mean("cost")}),
    ("COUNT(*) AS n, AVG(readmitted) AS r", {"n": sf.count(), "r": sf.mean("readmitted")}),
]
WHERES: list[tuple[str, tuple[str, ...]]] = [
    ("", ()),
    ("WHERE age >= 65", ("age >= 65",)),
    ("WHERE age >= 65 AND ward = 'A'", ("age >= 65", "ward = 'A'")),
    ("WHERE (age < 3 OR cost > 10) AND insured IS NOT NULL", ("age < 3 OR cost > 10", "insured IS NOT NULL")),
    ('WHERE "stay days" BETWEEN 2 AND 9', ('visits."stay days" BETWEEN 2 AND 9',)),
]
KEYS: list[tuple[str, ...]] = [(), ("ward",), ("ward", "insured")]


class Asked:
    """Gives back what it is asked for, and remembers how it was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def question(self, question: Question, text: str) -> Question:
        self.said.append(text)
        return question

    def __getattr__(self, kind: str) -> Callable[..., tuple[Any, ...]]:
        return lambda *given: (kind, *given)


ASKED = Asked()


def _frame(conditions: tuple[str, ...], keys: tuple[str, ...]) -> Frame[Question, Any]:
    frame = Frame.from_table("visits", ASKED)
    for condition in conditions:
        frame = frame.where(condition)
    return frame.group_by(*keys) if keys else frame


def _sql(shown: str, where: str, keys: tuple[str, ...]) -> str:
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, shown])} FROM visits {where} {group}"


@pytest.mark.parametrize("keys", KEYS, ids=str)
@pytest.mark.parametrize(("where", "conditions"), WHERES, ids=[where for where, _ in WHERES])
@pytest.mark.parametrize(("shown", "aggregates"), AGGREGATES, ids=[shown for shown, _ in AGGREGATES])
def test_a_frame_is_its_select(
    catalog: Catalog,
    shown: str,
    aggregates: dict[str, Aggregate],
    where: str,
    conditions: tuple[str, ...],
    keys: tuple[str, ...],
) -> None:
    framed, selected = _frame(conditions, keys).agg(**aggregates), parse_question(_sql(shown, where, keys))
    assert framed.outputs == selected.outputs
    one, other = (
        plan_question(catalog.find_table, each, PureSpend(Fraction(1))) for each in (framed, selected)
    )
    assert one.request == other.request
    assert one.cost == other.cost
    assert one.measured == other.measured


@pytest.mark.parametrize(("text", "asked"), LONGER, ids=[text for text, _ in LONGER])
def test_a_longer_frame_is_its_select(
    catalog: Catalog, text: str, asked: Callable[[Frame[Question, Any]], Question]
) -> None:
    framed, selected = asked(Frame.from_table("visits", ASKED)), parse_question(text)
    assert [each.name for each in framed.outputs] == [each.name for each in selected.outputs]
    one, other = (
        plan_question(catalog.find_table, each, PureSpend(Fraction(1))) for each in (framed, selected)
    )
    assert one.request == other.request
    assert one.cost == other.cost


@pytest.mark.parametrize("condition", ["age", "other.age > 3", "COUNT(*) > 3"])
def test_conditions_that_mean_nothing_are_refused_with_the_question(catalog: Catalog, condition: str) -> None:
    framed = Frame.from_table("visits", ASKED).where(condition).count()
    with pytest.raises(PolicyError, match=r"SF-Q(105|107|151)"):
        plan_question(catalog.find_table, framed, PureSpend(Fraction(1)))


def test_count_is_short_for_one_count() -> None:
    counted = _frame(("age > 3",), ("ward",)).count()
    assert counted == parse_question("SELECT ward, COUNT(*) FROM visits WHERE age > 3 GROUP BY ward")


def test_a_step_gives_a_new_frame() -> None:
    frame = Frame.from_table("visits", ASKED)
    assert frame.where("age > 3") != frame
    assert frame.group_by("ward").group_by("insured").keys == (
        ("ward", Name("ward")),
        ("insured", Name("insured")),
    )
    assert frame == Frame.from_table("visits", ASKED)


def test_a_frame_says_what_it_is() -> None:
    asked = Asked()
    frame = Frame.from_table("visits", asked).where("age > 3").group_by("ward")
    frame.agg(n=sf.count(), cost=sf.mean("cost"))
    assert asked.said == ["table('visits').where('age > 3').group_by('ward').agg(n=count(), cost=mean(cost))"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("", "SF-Q101"),
        ("age >", "SF-Q101"),
        ("age > 3 GROUP BY ward", "SF-Q101"),
        ("age > 3 UNION SELECT 1", "SF-Q101"),
        ("age > 3; DROP TABLE visits", "SF-Q101"),
        ("SELECT 1", "SF-Q101"),
        ("'unclosed", "SF-Q101"),
        ("age IN (SELECT 1)", "SF-Q103"),
        ("NOT " * 70 + "age = 1", "SF-Q113"),
        ("x" * 20_001, "SF-Q113"),
        (7, "SF-Q113"),
    ],
)
def test_conditions_outside_the_closed_list_are_refused(condition: str, code: str) -> None:
    with pytest.raises(PolicyError) as refusal:
        Frame.from_table("visits", ASKED).where(condition)
    assert refusal.value.code == code


def _refused() -> list[tuple[str, object]]:
    frame = Frame.from_table("visits", ASKED)
    return [
        ("SF-Q109", lambda: frame.group_by("ward", "WARD").count()),
        ("SF-Q133", lambda: frame.group_by("ward").agg(Ward=sf.count())),
        ("SF-Q116", lambda: frame.group_by("ward").agg()),
        ("SF-Q124", lambda: frame.agg(n="COUNT(*)")),  # type: ignore[arg-type]
        ("SF-Q124", lambda: frame.agg(n=sf.count)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: frame.group_by(3)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: sf.mean(None)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: sf.bins("age", [3, 1])),
        ("SF-Q127", lambda: frame.where("age > 3").units()),
        ("SF-E187", lambda: frame.top("ward", by="columns")),
        ("SF-Q105", lambda: sf.quantile("age", 2)),
        ("SF-Q124", lambda: frame.per_unit("patient_id", x=sf.median("cost"))),
        ("SF-Q124", lambda: frame.subsample("MEDIAN(cost)", blocks=5)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: sf.count(1)),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(("code", "call"), _refused())
def test_what_cannot_be_right_is_refused(code: str, call: object) -> None:
    with pytest.raises(SfumatoError) as refusal:
        call()  # type: ignore[operator]
    assert refusal.value.code == code


def test_a_frame_and_its_select_are_one_question_to_the_ledger(tmp_path: Path) -> None:
    import pyarrow as pa

    lab = sf.create(tmp_path / "lab")
    rows = pa.table({"who": [1, 2, 3], "ward": ["A", "B", "A"]})
    lab.register(
        "visits",
        rows,
        unit=sf.Unit("who", max_rows=1),
        columns={"ward": sf.one_of("A", "B")},
        budget=sf.Budget(epsilon=2),
    )
    s = lab.session()
    paid = s.table("visits").group_by("ward").agg(n=sf.count()).release(epsilon=1)
    again = s.sql("SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC").release(epsilon=1)
    assert again.receipt.replayed
    assert sorted(paid.to_arrow()["n"].to_pylist(), reverse=True) == again.to_arrow()["n"].to_pylist()
    with pytest.raises(PolicyError, match="SF-Q106"):
        s.table("nothing")
    with pytest.raises(UsageError, match="SF-Q124"):
        s.table(7)  # type: ignore[arg-type]
