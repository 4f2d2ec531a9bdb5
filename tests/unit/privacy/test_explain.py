import math

import pytest

from sfumato.errors import UsageError
from sfumato.privacy import DEPLOYMENTS, compare_deployments, explain, gaussian


@pytest.mark.parametrize(("epsilon", "right"), [(0.5, 62), (1, 73), (2, 88), (4, 98)])
def test_how_often_an_even_guess_can_be_right(epsilon: float, right: int) -> None:
    assert round(100 * explain(epsilon).posterior) == right


def test_other_priors() -> None:
    assert explain(1, prior=0.01).posterior == pytest.approx(0.01 * 2.718281828 / (0.99 + 0.01 * 2.718281828))


def test_words() -> None:
    assert "smoker" in str(explain(1))
    assert "δ = 1e-06" in str(explain(1, 1e-6))
    assert "weak" in str(explain(8))
    assert "weak" not in str(explain(0.001))


def test_a_delta_moves_a_belief_further_and_is_not_the_chance_of_that() -> None:
    """A Gaussian release at exactly (1, 1e-6) takes an even guess beyond 73 in 100 with the chance 20·δ."""
    told = explain(1, 1e-6)
    beyond = math.log(told.posterior / (1 - told.posterior))
    mu = gaussian.mu_of(1, 1e-6)
    assert told.chance == pytest.approx(1e-5)
    assert math.erfc((beyond - mu * mu / 2) / mu / math.sqrt(2)) / 2 <= told.chance
    assert "75 in 100" in told.sentence
    assert "10·δ = 1e-05" in told.sentence
    assert "plus δ = 1e-06" in str(told)
    assert told.to_dict()["chance"] == told.chance


@pytest.mark.parametrize("prior", [0, 1, 2, -1])
def test_impossible_priors(prior: float) -> None:
    with pytest.raises(UsageError):
        explain(1, prior=prior)


def test_priors_near_the_ends_keep_their_digits() -> None:
    told = str(explain(1, prior=0.00001))
    assert "0.0010 in 100" in told
    assert "0.0027 in 100" in told
    assert "100 in 100" not in str(explain(12))


def test_what_is_not_promised() -> None:
    told = str(explain(1, 1e-5, people=1_000_000))
    assert "privacy where there was none" in told
    assert "10 of 1,000,000 people" in told
    assert "publishing everything" in str(explain(1, 1e-5))
    assert "publishing everything" not in str(explain(1))


def test_published_guarantees_have_sources_and_odds() -> None:
    assert {(one.who, float(one.epsilon), float(one.delta)) for one in DEPLOYMENTS} == {
        ("Apple", 6, 0),
        ("Apple", 14, 0),
        ("Apple", 2, 0),
        ("Facebook", 1.453, 1e-5),
        ("Google", 9, 0),
        ("LinkedIn", 0.15, 1e-10),
        ("Microsoft", 12, 5.8e-6),
        ("US Census Bureau", 13.64, 1e-5),
    }
    assert all(one.source for one in DEPLOYMENTS)
    assert round(100 * DEPLOYMENTS[2].explain().posterior) == 88


def test_ones_own_stands_among_them() -> None:
    rows = compare_deployments(1, 1e-6)
    assert [row["who"] for row in rows][:3] == ["LinkedIn", "yours", "Facebook"]
    assert len(rows) == len(DEPLOYMENTS) + 1


def test_a_notebook_shows_sentences() -> None:
    said = explain(1)
    assert repr(said) == str(said)
    assert said._repr_html_().count("<p>") == len(said.sentences())
