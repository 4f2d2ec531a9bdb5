"""Turns for questions: nobody takes them all, and everything that waits for a slot waits there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import anyio
import pytest

from serving import serve_clinic
from sfumato.errors import PolicyError
from sfumato.server.rates import QuestionTurns
from sfumato.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from serving import ServedClinic

SQL = "SELECT COUNT(*) AS n FROM visits"


def test_one_person_takes_half_of_the_turns_at_most() -> None:
    go_on = threading.Event()

    async def ask_much() -> None:
        turns = QuestionTurns(4)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: turns.run(go_on.wait, whose="ada"))
            try:
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(PolicyError, match="SF-W108"):
                    await turns.run(int, whose="ada")
                assert await turns.run(int, "7", whose="bob") == 7
            finally:
                go_on.set()
        assert await turns.run(int, "8", whose="ada") == 8

    anyio.run(ask_much)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[ServedClinic]:
    with serve_clinic(tmp_path / "clinic", ServerSettings("http://testserver", most_questions=1)) as clinic:
        yield clinic


def test_pages_and_programs_ask_in_turn(full: ServedClinic) -> None:
    sent = {"question": {"sql": SQL}, "spend": {"epsilon": 0.1}}
    entry = full.send("POST", "/api/release", json=sent).json()["entry"]
    full.context.turns._asking["ada"] = 1  # as if a question of hers were waiting for its slot
    typed = {"sql": SQL, "epsilon": "0.2"}
    refused = [
        full.send("POST", "/api/release", json=sent),
        full.send("POST", "/api/refine", json={"entry": entry, "spend": {"epsilon": 0.1}}),
        full.send("POST", "/ask/release", data=typed),
        full.send("POST", f"/releases/{entry}/refine", data=typed),
    ]
    assert {each.json()["code"] for each in refused} == {"SF-W108"}
    assert {each.status_code for each in refused} == {429}
    assert full.send("POST", "/api/quote", json=sent).status_code == 200
    assert full.send("GET", f"/releases/{entry}").status_code == 200
    assert full.lab.verify().charges == 1


def test_each_question_of_a_plan_is_counted(tmp_path: Path) -> None:
    few = ServerSettings("http://testserver", requests_per_second=1e-6, request_burst=12)
    with serve_clinic(tmp_path / "clinic", few) as clinic:
        asked = {"questions": [f"{SQL} WHERE age > {each}" for each in range(6)], "spend": {"epsilon": 0.1}}
        answers = [clinic.send("POST", "/api/plan", json=asked) for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[-1].json()["code"] == "SF-W108"
