"""What was asked before is found again, whatever was renamed since: requests, prices and labs are pinned.

The files here were written by the version that wrote class names into request hashes. A difference means that
people are charged again for answers that they have, so a request is recorded anew only if its old hash also
stood for a question with another answer. That was so of LEAST, GREATEST and ABS (docs/decisions/0025), and
the rows of CORR(x, x) had a name that no other question knew. Prices
may fall, where a tighter bound is proven, and never rise; `questions.txt` has the hashes of
those in `prices.txt`.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from fractions import Fraction
from operator import le
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.privacy.account import Cost, price
from sfumato.privacy.canonical import canonical_json, tagged
from sfumato.queries.sql import parse_question
from unit.identity import programme
from unit.queries.test_plans import FILES, TABLES, _blocks

HERE = Path(__file__).parent
SPENDS = {
    "pure": PureSpend(Fraction(1)),
    "small": PureSpend(Fraction(1, 10), Fraction(1, 10**9)),
    "both": PureSpend(Fraction(1), Fraction(1, 10**6)),
    "gaussian": GaussianSpend(Fraction(7, 2), ""),
}


def identities() -> list[tuple[str, Cost, str]]:
    """The request, the price and the words of every recorded question at every spend that it can have."""
    found = []
    for sql in (sql for file in FILES for sql, _ in _blocks(file)):
        resolved = ResolvedQuestion(TABLES.__getitem__, parse_question(sql))
        for name, spend in SPENDS.items():
            if resolved.discovers_keys and not getattr(spend, "delta", 0):
                continue
            if resolved.choices and not isinstance(spend, PureSpend):
                continue
            plan = price_question(resolved, spend)
            found.append((plan.request, price(plan.event), f"{name}: {' '.join(sql.split())}"))
    return found


def recorded_prices() -> dict[str, Cost]:
    """The prices of the recorded questions, by the hash that stands beside each question."""
    costs = (HERE / "prices.txt").read_text(encoding="utf-8").splitlines()
    return {
        hashlib.sha256(cost.encode()).hexdigest()[:16]: Cost.from_dict(json.loads(cost)) for cost in costs
    }


def is_at_most(cost: Cost, recorded: Cost) -> bool:
    """Whether no part of a price is above the recorded one; a pure ε that is lost would be."""
    pure = recorded.pure is None or (cost.pure is not None and cost.pure <= recorded.pure)
    return pure and cost.side <= recorded.side and all(map(le, cost.renyi, recorded.renyi))


def test_requests_of_questions_are_as_they_were_and_no_price_rose() -> None:
    lines = (HERE / "questions.txt").read_text(encoding="utf-8").splitlines()
    asked, prices = identities(), recorded_prices()
    assert len(lines) >= 400
    recorded = [line.split(" ", 2) for line in lines]
    assert [(request, words) for request, _, words in asked] == [(one[0], one[2]) for one in recorded]
    dearer = [
        words
        for (_, cost, words), (_, paid, _) in zip(asked, recorded, strict=True)
        if not is_at_most(cost, prices[paid])
    ]
    assert dearer == []


@pytest.fixture
def old_lab(tmp_path: Path) -> sf.Lab:
    """A lab that was made before, with everything of the programme asked once."""
    with tarfile.open(HERE / "lab.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    # Unpacking is copying, which a ledger notices.
    sf.accept(tmp_path / "lab", unproven=True)
    return sf.open(tmp_path / "lab")


def test_answers_of_an_old_lab_are_found_free(old_lab: sf.Lab) -> None:
    before, spent = programme.requests(old_lab), old_lab.budget.to_dict()
    assert programme.ask_all(old_lab) == {}
    assert programme.requests(old_lab) == before
    assert old_lab.budget.to_dict() == spent
    (published,) = old_lab.published()
    # Three wards, and a group without one that its noise may hide.
    assert published.read().to_arrow().num_rows in (3, 4)
    assert old_lab.ledger.verify().entries >= len(before)


def test_an_old_lab_goes_on(old_lab: sf.Lab) -> None:
    """What was not asked before is charged and answered from the old snapshot."""
    before = len(programme.requests(old_lab))
    old_lab.session().sql("SELECT COUNT(*) AS n FROM visits WHERE age < 20").release(epsilon=1)
    assert len(programme.requests(old_lab)) == before + 1


def test_first_requests_are_pinned(tmp_path: Path) -> None:
    """Questions, choices, graphs and the first round of each fit, which no noise has touched yet."""
    lines = (HERE / "requests.txt").read_text(encoding="utf-8").splitlines()
    pinned = {name: request for request, _, name in (line.partition(" ") for line in lines)}
    assert len(pinned) >= 30
    made = programme.ask_all(programme.build(tmp_path / "lab"))
    assert {name: made.get(name) for name in pinned} == pinned


def test_only_tagged_values_are_hashed() -> None:
    class Untagged:
        pass

    with pytest.raises(TypeError, match="has no tag"):
        canonical_json([Untagged()])
    with pytest.raises(TypeError, match="fields"):
        tagged("Budget", "one")(sf.Budget)
