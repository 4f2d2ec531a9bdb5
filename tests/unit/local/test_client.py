"""The JavaScript client draws the laws of the Python code: the same words give the same reports."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.errors import UsageError
from sfumato.local import (
    MeanResponse,
    RandomizedResponse,
    SubsetResponse,
    read_client,
)
from unit.local.scripted import Words

LN3 = math.log(3)
FALSE_ALARM = 1e-10
Client = Callable[..., Any]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Answers of the client under Node. Without Node the test is skipped."""
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None:
        pytest.skip("NODE IS MISSING: install nodejs")
    folder = tmp_path_factory.mktemp("client")
    module = folder / "client.mjs"
    module.write_text(read_client(), encoding="utf-8")
    script = Path(__file__).with_name("answers.mjs")

    command = [node, str(script), module.as_uri()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def ask(*requests: dict[str, Any]) -> list[Any]:
            found = []
            for request in requests:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                found.append(json.loads(process.stdout.readline()))
            return found

        yield ask
        process.stdin.close()


MECHANISMS = {
    "fair coin": (RandomizedResponse(LN3), [0, 1]),
    "seven answers": (RandomizedResponse(0.3, 7), [0, 3, 6]),
    "a million answers": (RandomizedResponse(8, 2**20), [0, 2**20 - 1]),
    "subset": (SubsetResponse(1, 100), [0, 51, 99]),
    "subset of a long list": (SubsetResponse(5, 4000), [0, 3999]),
    "subset of one": (SubsetResponse(6, 12), [0, 11]),
    "subset of two values": (SubsetResponse(1, 2), [0, 1]),
    "mean": (MeanResponse(4, -2, 7.5), [-3.0, -2.0, 0.1, 5.25, 7.5]),
    "mean by Duchi": (MeanResponse(0.5, 0, 1), [0.0, 0.3, 1.0]),
}


def words_for(seed: int, count: int) -> list[str]:
    """Random words, the smallest and largest among them: the largest are drawn again where they must."""
    drawn = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
    drawn[:6] = [0, 2**64 - 1, 5, 1, 2**64 - 2, 2**63]
    return [str(word) for word in drawn]


def test_the_same_words_give_the_same_reports(client: Client) -> None:
    names = list(MECHANISMS)
    requests = []
    for seed, name in enumerate(names):
        mechanism, truths = MECHANISMS[name]
        requests.append(
            {"question": mechanism.question(), "truths": truths * 60, "words": words_for(seed, 997)}
        )
    for name, request, messages in zip(names, requests, client(*requests), strict=True):
        mechanism = MECHANISMS[name][0]
        source = Words([int(word) for word in request["words"]])
        ours = [np.asarray(mechanism.privatize(truth, source=source)).tolist() for truth in request["truths"]]
        assert [message["report"] for message in messages] == ours, name
        assert mechanism.collect(messages).tolist() == ours


def test_every_number_once_has_exactly_the_odds(client: Client) -> None:
    """The whole law, enumerated in JavaScript: nothing is left to chance."""
    response = RandomizedResponse(LN3, 60)
    request = {"question": response.question(), "truths": [7] * 62, "words": [str(n) for n in range(62)]}
    [messages] = client(request)
    seen = np.bincount([message["report"] for message in messages], minlength=60)
    assert seen.tolist() == [3 if value == 7 else 1 for value in range(60)]


def same_law(first: dict[str, int], second: dict[str, int]) -> float:
    """The chance of counts as different as these, if both were drawn from one law."""
    reports = sorted(first.keys() | second.keys())
    table = np.array([[counts.get(report, 0) for report in reports] for counts in (first, second)], float)
    expected = table.sum(axis=0) * table.sum(axis=1, keepdims=True) / table.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), len(reports) - 1))


DRAWN = [RandomizedResponse(LN3), RandomizedResponse(1, 9), SubsetResponse(1, 7), MeanResponse(4, 0, 1)]


def compare_draws(client: Client, draws: int) -> None:
    requests = [{"question": each.question(), "truth": 1, "draws": draws} for each in DRAWN]
    for mechanism, counts in zip(DRAWN, client(*requests), strict=True):
        drawn = mechanism.privatize(np.full(draws, 1))
        told = zip(*np.unique(drawn, axis=0, return_counts=True), strict=True)
        ours = {json.dumps(report.tolist()).replace(" ", ""): int(count) for report, count in told}
        assert same_law(ours, counts) > FALSE_ALARM


def test_draws_have_one_law(client: Client) -> None:
    compare_draws(client, 5000)


@pytest.mark.slow
def test_a_million_draws_have_one_law(client: Client) -> None:
    compare_draws(client, 1_000_000)


def test_a_survey_in_the_browser_is_estimated_here(client: Client) -> None:
    """The system's coins, there; six standard errors, here."""
    wards, people = SubsetResponse(2, 50), 3000
    [messages] = client({"question": wards.question(), "truths": [7] * 1000 + [11] * 2000})
    found = wards.estimate(wards.collect(messages))
    assert abs(found.shares[7] - 1 / 3) < 6 * wards.expected_error(people)
    assert set(found.top(2)) == {7, 11}
    assert found.answers == people


def test_a_memo_gives_one_message_for_ever(client: Client) -> None:
    [messages] = client({"question": RandomizedResponse(LN3).question(), "truth": 1, "memo": 200})
    assert len({message["report"] for message in messages}) == 1
    assert len({message["question"] for message in messages}) == 200


SUBSET = {"id": "0", "kind": "subset", "odds": ["1001", "1000"], "values": 4}
HOSTILE: dict[str, dict[str, Any]] = {
    "a set of all values": {**SUBSET, "size": 4},
    "a set of none": {**SUBSET, "size": 0},
    "a size as a text": {**SUBSET, "size": "1"},
    "a list without end": {**SUBSET, "size": 1, "values": 2**40},
    "a kind of the prototype": {"id": "0", "kind": "constructor", "odds": ["3", "1"], "values": 2},
    "certain odds": {"id": "0", "kind": "response", "odds": ["5", "0"], "values": 2},
    "odds below zero": {"id": "0", "kind": "response", "odds": ["-1", "3"], "values": 2},
    "other odds": {"id": "0", "kind": "response", "odds": ["1", "5"], "values": 2},
    "no odds": {"id": "0", "kind": "response", "values": 2},
    "a window beyond its positions": {"id": "0", "kind": "mean", "odds": ["3", "1"], "low": 0, "high": 1}
    | {"steps": 2**20, "positions": 2, "window": 3},
    "positions as a text": {"id": "0", "kind": "mean", "odds": ["3", "1"], "low": 0, "high": 1}
    | {"steps": 2**20, "positions": "2", "window": 1},
    "no bounds": {"id": "0", "kind": "mean", "odds": ["3", "1"], "low": 0, "high": 0}
    | {"steps": 2**20, "positions": 2, "window": 1},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_question_of_ill_intent_is_refused(client: Client, what: str) -> None:
    """Their reports would say more than the odds do."""
    [found] = client({"question": HOSTILE[what], "truths": [0]})
    assert found["error"].startswith("SF-N512")


def test_a_respondent_can_say_how_much_is_too_much(client: Client) -> None:
    asked = {"question": RandomizedResponse(LN3).question(), "truths": [1]}
    refused, told = client({**asked, "most": 1.0}, {**asked, "most": 1.1})
    assert refused["error"].startswith("SF-N512")
    assert told[0]["report"] in (0, 1)


@pytest.mark.parametrize(
    ("question", "truth", "code"),
    [
        (RandomizedResponse(1, 4).question(), 4, "SF-N502"),
        (RandomizedResponse(1, 4).question(), 1.5, "SF-N502"),
        (RandomizedResponse(1, 4).question(), None, "SF-N502"),
        (SubsetResponse(1, 40).question(), -1, "SF-N502"),
        (MeanResponse(1, 0, 1).question(), "x", "SF-N502"),
        ({"id": "0", "kind": "oracle"}, 0, "SF-N512"),
    ],
)
def test_the_client_names_mistakes(client: Client, question: Any, truth: Any, code: str) -> None:
    [found] = client({"question": question, "truths": [truth]})
    assert found["error"].startswith(code)


def test_messages_of_another_question_are_refused() -> None:
    asked: Any = SubsetResponse(1, 1000)
    others = [
        SubsetResponse(2, 1000),
        SubsetResponse(1, 1001),
        RandomizedResponse(1, 1000),
        MeanResponse(1, 0, 9),
    ]
    for other in others:
        with pytest.raises(UsageError) as refused:
            asked.collect([{"question": other.question()["id"], "report": 0}])
        assert refused.value.code == "SF-N512"
    mine = asked.question()["id"]
    told = asked.privatize(3).tolist()
    assert asked.collect([{"question": mine, "report": told}]).tolist() == [told]
    for report, code in (
        ([*told[:-1], 10**9], "SF-N502"),
        ([*told[:-1], 0.5], "SF-N512"),
        (told[:-1], "SF-N512"),
        (told[::-1], "SF-N502"),
        ([told[0], *told[:-1]], "SF-N502"),
        (None, "SF-N512"),
        (3, "SF-N512"),
    ):
        with pytest.raises(UsageError) as refused:
            asked.collect([{"question": mine, "report": report}])
        assert refused.value.code == code
    with pytest.raises(UsageError) as refused:
        asked.collect(["text"])  # type: ignore[list-item]
    assert refused.value.code == "SF-N512"


def test_the_client_depends_on_nothing() -> None:
    code = read_client()
    assert "import " not in code.replace('import { answer } from "./client.js"', "")
    assert "Math.random" not in code
