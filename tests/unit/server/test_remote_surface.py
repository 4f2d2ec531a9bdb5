"""A session over HTTP has the surface of one in the lab; what it does beside questions is tried here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from loopback import LoopbackClinic, serve_on_loopback
from serving import COUNT, make_lab
from sfumato.errors import SfumatoError
from sfumato.lab.remote.session import RemoteSession
from sfumato.lab.session import Session
from sfumato.queries.frames import Frame
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_OVER_HTTP = {
    "question": "it is `sql` without SHOW TABLES and DESCRIBE, for the lab's own plans",
    "watch_rounds": "jobs count the rounds on the server, and `job.look()` tells them",
}
ONLY_OVER_HTTP = {
    "ask_quote": "what frames and questions send",
    "ask_release": "what frames and questions send",
    "ask_tune": "what questions send",
    "describe": "what frames send",
    "jobs": "long work goes on when the program ends, and is found again",
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackClinic]:
    folder = tmp_path_factory.mktemp("surface") / "clinic"
    with serve_on_loopback(folder, make_lab(folder)) as served:
        yield served


@pytest.fixture(scope="module")
def remote(clinic: LoopbackClinic) -> RemoteSession:
    return clinic.connect()


def list_names(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_surface_is_that_of_a_session() -> None:
    ours, theirs = list_names(Session), list_names(RemoteSession)
    assert ours - theirs == set(NOT_OVER_HTTP)
    assert theirs - ours == set(ONLY_OVER_HTTP)


@pytest.mark.parametrize("name", sorted((list_names(Session) & list_names(RemoteSession)) - {"stream"}))
def test_methods_take_the_same_arguments(name: str) -> None:
    """A call that a lab takes is taken over HTTP: names are the same, or are passed on as they are."""
    local, far = getattr(Session, name), getattr(RemoteSession, name)
    if isinstance(local, property):
        assert isinstance(far, property)
        return
    known = inspect.signature(far).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values()):
        return
    assert set(inspect.signature(local).parameters) <= set(known)


def test_frames_have_the_steps_of_a_lab(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    far = list_names(type(remote.table("visits")))
    # How a frame is made and read is the room's own business.
    own = {"from_table", "select_rows", "relation", "keys", "questions", "question"}
    assert {name for name in list_names(Frame) if callable(getattr(Frame, name))} - far - own == set()


# ---- work around questions ---------------------------------------------------------------------------------


def find_request(place: Any, number: int) -> Any:
    return next(each for each in place.requests() if each.number == number)


def test_a_request_is_sent_granted_and_withdrawn(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    sent = remote.request(epsilon=0.5, delta="1e-9", reason="A second wave.")
    other = remote.request(epsilon=1, reason="Perhaps not.")
    assert other.withdraw().state == "withdrawn"
    states = {each.number: each.state for each in remote.requests()}
    assert (states[sent.number], states[other.number]) == ("open", "withdrawn")
    find_request(clinic.lab, sent.number).grant(note="Go on.")
    granted = find_request(remote, sent.number)
    assert (granted.state, granted.note) == ("granted", "Go on.")
    assert str(granted) == str(find_request(clinic.lab.session("ada"), sent.number))
    with pytest.raises(SfumatoError, match="SF-P113"):
        remote.request(epsilon=1, reason=" ")


def test_a_plan_costs_nothing_and_is_the_same(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    asked = [COUNT, "SELECT AVG(cost) AS c FROM visits", COUNT]
    before = clinic.lab.ledger.verify().charges
    assert remote.plan(asked, epsilon=0.1) == clinic.lab.session("ada").plan(asked, epsilon=0.1)
    assert clinic.lab.ledger.verify().charges == before
    with pytest.raises(SfumatoError, match="SF-Q221"):
        remote.plan([], epsilon=0.1)


def test_parts_are_asked_each_its_own(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    def ask(session: Any) -> Any:
        parts = session.table("visits").partition("ward")
        asked = {"A": parts["A"].count(), "C": parts["C"].where("age > 30").agg(c=sf.mean("cost"))}
        return parts.ask(asked)

    far, local = ask(remote).release(epsilon=0.5), ask(clinic.lab.session("ada")).release(epsilon=0.5)
    assert list(far) == list(local) == ["A", "C"]
    assert [far[each].to_arrow() for each in far] == [local[each].to_arrow() for each in local]
    parts = remote.table("visits").partition("ward")
    with pytest.raises(SfumatoError, match="SF-Q127"):
        parts.ask({"A": parts["B"].count()}).quote(epsilon=1)
    for wrong in ({}, {"A": 3}):
        with pytest.raises(SfumatoError, match="SF-Q127"):
            parts.ask(wrong)  # type: ignore[arg-type]


def test_a_rehearsal_has_the_same_tables_and_budgets(
    clinic: LoopbackClinic, remote: RemoteSession, tmp_path: Path
) -> None:
    rehearsal = remote.rehearse(tmp_path / "far", rows=50)
    local = clinic.lab.session("ada").rehearse(tmp_path / "near", rows=50)
    assert rehearsal.tables == local.tables
    assert rehearsal.budget.to_dict().keys() == local.budget.to_dict().keys()
    before = clinic.lab.ledger.verify().charges
    assert rehearsal.sql(COUNT).release(epsilon=0.25).to_arrow().num_rows == 3
    assert clinic.lab.ledger.verify().charges == before
    steward = clinic.connect("steward").rehearse(tmp_path / "all")
    assert list(steward.tables) == ["visits", "staff"]


# ---- jobs --------------------------------------------------------------------------------------------------


def test_a_job_that_runs_is_ended(tmp_path: Path) -> None:
    """Its reply would leave minutes later; its process is gone a moment after it was cancelled."""
    lab = make_lab(tmp_path / "clinic")
    with serve_on_loopback(tmp_path / "clinic", lab, processes=True) as served:
        session = served.connect()
        lab.set_pace("visits", seconds=2000)  # a slot of minutes
        job = session.fit(
            sf.learn.GaussianNB(epsilon=1), table="visits", features=["age"], target="ill", wait=False
        )
        store = served.app.state.context.jobs
        wait_until(lambda: store.find_job(job.id, None).begun, "the job begins")
        assert job.cancel().state == "cancelled"
        with pytest.raises(SfumatoError, match="stays charged"):
            job.wait()
        runner = served.app.state.context.runner
        [(process, _)] = runner._running
        wait_until(lambda: process.poll() is not None, "the process of the cancelled job ends")
        assert job.cancel().state == "cancelled"  # said twice, it is the same
