"""Jobs are kept once, given to one worker, and never begun again once they may have charged."""

import os
from pathlib import Path

import pytest

from sfumato.errors import PolicyError
from sfumato.server.jobs import store as stores
from sfumato.server.jobs.store import JobState, JobStore, write_cut_off


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path)


def test_a_key_is_one_job(store: JobStore) -> None:
    first = store.add_job("ada", "ada", "fit", {"a": 1}, "k")
    assert store.add_job("ada", "ada", "fit", {"a": 1}, "k") == first
    assert store.add_job("bob", "bob", "fit", {"a": 1}, "k").id != first.id
    for other in (("fit", {"a": 2}), ("sample", {"a": 1})):
        with pytest.raises(PolicyError, match="SF-L204"):
            store.add_job("ada", "ada", *other, "k")


def test_jobs_of_others_are_not_there(store: JobStore) -> None:
    job = store.add_job("ada", "ada", "fit", {}, "k")
    with pytest.raises(PolicyError, match="SF-U101"):
        store.find_job(job.id, "bob")
    assert store.find_job(job.id, None) == store.find_job(job.id, "ada") == job
    assert store.list_jobs("bob") == ()


def test_files_are_private(store: JobStore, tmp_path: Path) -> None:
    assert (tmp_path / "jobs.sqlite").stat().st_mode & 0o077 == 0
    assert store.folder.stat().st_mode & 0o077 == 0


def test_claims_are_limited_and_people_take_turns(tmp_path: Path) -> None:
    one, other = JobStore(tmp_path), JobStore(tmp_path)
    mine = [one.add_job("ada", "ada", "fit", {}, str(number)) for number in range(3)]
    his = one.add_job("bob", "bob", "fit", {}, "k")
    first, second = one.claim_job("w1", 2), other.claim_job("w2", 2)
    assert (first and first.id, second and second.id) == (mine[0].id, his.id)
    assert one.claim_job("w3", 2) is None
    assert one.count_waiting() == 2


def test_a_job_that_had_charged_nothing_waits_again(store: JobStore) -> None:
    job = store.add_job("ada", "ada", "fit", {}, "k")
    worker, descriptor = store.lock_worker()
    store.claim_job(worker, 1)
    assert store.settle_dead() == 0
    os.close(descriptor)
    assert store.settle_dead() == 1
    assert store.find_job(job.id, None).state is JobState.WAITING


def test_a_job_that_may_have_charged_is_cut_off_for_good(store: JobStore) -> None:
    job = store.add_job("ada", "ada", "fit", {}, "k")
    worker, descriptor = store.lock_worker()
    store.claim_job(worker, 1)
    store.mark_begun(job.id, worker)
    store.note_round(job.id, worker, 0.25)
    os.close(descriptor)
    store.settle_dead()
    found = store.find_job(job.id, None)
    assert (found.state, found.outcome, found.rounds) == (JobState.CUT_OFF, write_cut_off(), 1)
    assert store.add_job("ada", "ada", "fit", {}, "k") == found
    assert store.claim_job("another", 1) is None
    # The process may have been slow and not dead: what it says now changes nothing.
    with pytest.raises(PolicyError, match="SF-U101"):
        store.finish(job.id, worker, JobState.DONE, {"form": "estimator"})
    assert list(store.folder.glob("*.lock")) == []


def test_only_its_worker_ends_a_job(store: JobStore) -> None:
    job = store.add_job("ada", "ada", "fit", {}, "k")
    store.claim_job("w", 1)
    with pytest.raises(PolicyError, match="SF-U101"):
        store.finish(job.id, "another", JobState.DONE, {})
    store.finish(job.id, "w", JobState.DONE, {"form": "rows"})
    assert store.find_job(job.id, None).to_dict()["result"] == {"form": "rows"}


def test_a_cancelled_job_says_what_it_may_have_charged(store: JobStore) -> None:
    waits, runs, begun, done = (store.add_job("ada", "ada", "fit", {}, key) for key in "abcd")
    for worker, job in (("w1", done), ("w2", begun), ("w3", runs)):
        with store._store.change() as file:
            file.execute("UPDATE jobs SET state = 'running', worker = ? WHERE id = ?", (worker, job.id))
    for worker, job in (("w1", done), ("w2", begun)):
        store.mark_begun(job.id, worker)
    store.finish(done.id, "w1", JobState.DONE, {"form": "estimator"})
    with pytest.raises(PolicyError, match="SF-U101"):
        store.cancel_job(waits.id, "bob")
    assert store.find_job(waits.id, None).state is JobState.WAITING
    said = [store.cancel_job(job.id, "ada") for job in (waits, runs, begun, done)]
    states = [JobState.CANCELLED] * 3 + [JobState.DONE]
    assert [each.state for each in said] == states
    told = [str((each.outcome or {}).get("title")) for each in said]
    assert ["nothing was charged" in each for each in told] == [True, True, False, False]
    assert "stays charged" in told[2]
    assert [(each.outcome or {}).get("code") for each in said] == ["SF-W165"] * 3 + [None]
    # A process that had not noticed yet begins nothing, and what it finds is not kept.
    with pytest.raises(PolicyError, match="SF-U101"):
        store.mark_begun(runs.id, "w3")
    with pytest.raises(PolicyError, match="SF-U101"):
        store.finish(begun.id, "w2", JobState.DONE, {"form": "estimator"})
    assert store.claim_job("another", 9) is None


def test_few_wait_and_few_are_kept(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_WAITING", 2)
    monkeypatch.setattr(stores, "MOST_KEPT", 3)
    for number in range(6):
        job = store.add_job("ada", "ada", "fit", {}, str(number))
        store.make_path(job.id, "npz").touch()
        store.claim_job("w", 9)
        store.finish(job.id, "w", JobState.DONE, {})
    assert len(store.list_jobs("ada")) == len(list(store.folder.glob("*.npz"))) == 4
    store.add_job("ada", "ada", "fit", {}, "a")
    store.add_job("ada", "ada", "fit", {}, "b")
    with pytest.raises(PolicyError, match="SF-W166"):
        store.add_job("ada", "ada", "fit", {}, "c")
    assert store.add_job("bob", "bob", "fit", {}, "c").state is JobState.WAITING
