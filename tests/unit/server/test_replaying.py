"""Steps that were sent are replayed from a closed list; everything else is refused with a code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from serving import make_lab
from sfumato.errors import SfumatoError
from sfumato.lab.remote.kept_answers import restrict_to_kept
from sfumato.server.replaying import replay_frame, replay_question, replay_rows

if TYPE_CHECKING:
    from sfumato.lab.session import Session

NAME = {"form": "name", "column": "cost"}
UNIT_SUM = {"form": "unit_figure", "figure": "sum", "of": NAME}


def call(function: str, *arguments: Any) -> dict[str, Any]:
    """Return the mean of a function, as it is sent."""
    return {"form": "mean", "of": {"form": "function", "function": function, "arguments": list(arguments)}}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return make_lab(tmp_path_factory.mktemp("replay") / "clinic").session("ada")


def test_steps_lead_to_the_question_that_they_name(session: Session) -> None:
    steps: list[Any] = [
        ["where", ["age >= 65"], {}],
        ["group_by", ["ward"], {}],
        ["agg", [], {"n": {"aggregate": "count", "arguments": []}, "c": {"form": "mean", "of": NAME}}],
    ]
    frame = session.table("visits").where("age >= 65").group_by("ward")
    assert (
        replay_question(session, "visits", steps).question
        == frame.agg(n=sf.count(), c=sf.mean("cost")).question
    )
    assert replay_frame(session, "visits", steps[:2]).relation == frame.relation
    assert replay_rows(session, "visits") == "visits"
    wide = [["histogram", ["cost", [0, 20_000, 10**9]], {}]]
    assert replay_question(session, "visits", wide).quote(epsilon=1).admitted


STEPS: dict[str, Any] = {
    "no step": [],
    "no question": [["where", ["age > 3"], {}]],
    "unknown": [["delete", [], {}]],
    "dunder": [["__class__", [], {}]],
    "private": [["_then", ["x"], {}]],
    "attribute": [["relation", [], {}]],
    "not a step": ["count"],
    "another shape": [["count", {}, []]],
    "arguments": [["where", [], {}], ["count", [], {}]],
    "self": [["where", ["age > 3"], {"self": 1}], ["count", [], {}]],
    "number for text": [["where", [3], {}], ["count", [], {}]],
    "list for text": [["where", [["age > 3"]], {}], ["count", [], {}]],
    "sql": [["where", ["1=1; DROP TABLE visits"], {}], ["count", [], {}]],
    "subquery": [["where", ["age > (SELECT MAX(age) FROM staff)"], {}], ["count", [], {}]],
    "another's table": [["join", ["staff"], {"on": "nurse"}], ["count", [], {}]],
    "function": [["agg", [], {"n": call("__import__")}]],
    "engine's function": [["agg", [], {"n": call("read_csv", NAME)}]],
    "unit figure": [["agg", [], {"n": {"form": "mean", "of": UNIT_SUM}}]],
    "no aggregate": [["agg", [], {"n": NAME}]],
    "text for aggregate": [["agg", [], {"n": "COUNT(*)"}]],
    "many bins": [["histogram", ["age"], {"bins": 10**9}]],
    "many edges": [["histogram", ["age", list(range(5000))], {}]],
    "many places": [["top", ["ward"], {"k": 10**9}]],
    "many blocks": [["subsample", [{"aggregate": "median", "arguments": ["cost"]}], {"blocks": 10**9}]],
    "long text": [["where", ["age > 3 AND " * 10_000], {}], ["count", [], {}]],
    "endless number": [["bounds", ["cost"], {"keep": {"number": "1e999999999"}}]],
    "many steps": [["where", ["age > 3"], {}]] * 60,
    "part": [["part", ["A"], {}]],
    "no such part": [["partition", ["ward"], {}], ["part", ["Z"], {}], ["count", [], {}]],
    "part twice": [["partition", ["ward"], {}], ["partition", ["ward"], {}]],
    "infinite": [["bounds", ["cost"], {"keep": float("inf")}]],
    "more in a frame": [["join", [{"frame": {"table": "visits", "steps": [], "more": 1}}], {"on": "who"}]],
}  # fmt: skip


@pytest.mark.parametrize("kind", STEPS)
def test_everything_else_is_refused(session: Session, kind: str) -> None:
    with pytest.raises(SfumatoError):
        replay_question(session, "visits", STEPS[kind]).quote(epsilon=1)


def test_frames_within_frames_end(session: Session) -> None:
    deep: dict[str, Any] = {"table": "visits", "steps": []}
    for _ in range(20):
        deep = {"table": "visits", "steps": [["join", [{"frame": deep}], {"on": "patient_id"}]]}
    with pytest.raises(SfumatoError, match="SF-W104"):
        replay_rows(session, deep)


def test_a_session_that_is_restricted_charges_nothing(session: Session) -> None:
    restricted = restrict_to_kept(session)
    asked = "SELECT COUNT(*) AS n FROM visits"
    with pytest.raises(SfumatoError, match="SF-W168"):
        restricted.sql(asked).release(epsilon=0.5)
    with pytest.raises(SfumatoError, match="SF-W168"):
        restricted.fit(sf.learn.CategoricalNB(epsilon=1.0), table="visits", features=["ward"], target="ill")
    first = session.sql(asked).release(epsilon=0.5)
    assert restricted.sql(asked).release(epsilon=0.5).to_arrow() == first.to_arrow()


def test_only_hostile_sessions_are_watched(session: Session) -> None:
    with pytest.raises(SfumatoError, match="SF-Q191"):
        session.watch_rounds(print)


def test_lists_within_lists_are_refused_before_they_exhaust_the_stack(session: Session) -> None:
    nested: Any = "age >= 65"
    for _ in range(900):
        nested = [nested]
    with pytest.raises(SfumatoError, match="SF-W104"):
        replay_question(session, "visits", [["where", nested, {}], ["count", [], {}]])
