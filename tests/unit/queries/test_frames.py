"""Frames ask what SQL asks: the same question, plan, price and request."""

from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.catalog import Catalog
from sfumato.curator.measurement import Aggregate, Question
from sfumato.curator.plan import plan
from sfumato.curator.spend import Pure
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.queries.frames import Frame
from sfumato.queries.sql import question

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


def _asked(asked: Question, _: str) -> Question:
    return asked


def _frame(conditions: tuple[str, ...], keys: tuple[str, ...]) -> Frame[Question]:
    frame = Frame("visits", _asked)
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
    framed, selected = _frame(conditions, keys).agg(**aggregates), question(_sql(shown, where, keys))
    assert framed.outputs == selected.outputs
    one, other = (plan(catalog.table("visits"), each, Pure(Fraction(1))) for each in (framed, selected))
    assert one.request == other.request
    assert one.cost == other.cost
    assert one.measured == other.measured


def test_count_is_short_for_one_count() -> None:
    assert _frame(("age > 3",), ("ward",)).count() == question(
        "SELECT ward, COUNT(*) FROM visits WHERE age > 3 GROUP BY ward"
    )


def test_a_step_gives_a_new_frame() -> None:
    frame = Frame("visits", _asked)
    assert frame.where("age > 3") != frame
    assert frame.group_by("ward").group_by("insured").keys == ("ward", "insured")
    assert frame == Frame("visits", _asked)


def test_a_frame_says_what_it_is() -> None:
    said: list[str] = []
    frame = Frame("visits", lambda _, text: said.append(text)).where("age > 3").group_by("ward")
    frame.agg(n=sf.count(), cost=sf.mean("cost"))
    assert said == ["table('visits').where('age > 3').group_by('ward').agg(n=count(), cost=mean('cost'))"]


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
        ("age", "SF-Q105"),
        ("age IN (SELECT 1)", "SF-Q103"),
        ("other.age > 3", "SF-Q103"),
        ("COUNT(*) > 3", "SF-Q105"),
        ("NOT " * 70 + "age = 1", "SF-Q113"),
        ("x" * 20_001, "SF-Q113"),
        (7, "SF-Q113"),
    ],
)
def test_conditions_outside_the_closed_list_are_refused(condition: str, code: str) -> None:
    with pytest.raises(PolicyError) as refusal:
        Frame("visits", _asked).where(condition)
    assert refusal.value.code == code


def _refused() -> list[tuple[str, object]]:
    frame = Frame("visits", _asked)
    return [
        ("SF-Q109", lambda: frame.group_by("ward", "WARD").count()),
        ("SF-Q115", lambda: frame.group_by("ward").agg(Ward=sf.count())),
        ("SF-Q116", lambda: frame.group_by("ward").agg()),
        ("SF-Q123", lambda: frame.agg(n="COUNT(*)")),  # type: ignore[arg-type]
        ("SF-Q123", lambda: frame.agg(n=sf.count)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: frame.group_by(3)),  # type: ignore[arg-type]
        ("SF-Q124", lambda: sf.mean(None)),  # type: ignore[arg-type]
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
