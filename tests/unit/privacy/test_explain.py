import pytest

from sfumato.errors import UsageError
from sfumato.privacy import explain


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


@pytest.mark.parametrize("prior", [0, 1, 2, -1])
def test_impossible_priors(prior: float) -> None:
    with pytest.raises(UsageError):
        explain(1, prior=prior)
