"""Behind the curator an estimator is its parameters: nothing that was set on the object takes part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, UsageError
from sfumato.learn import GaussianNB, LogisticRegression
from sfumato.oracle.blocks import SumBlock

GIVEN: dict[str, Any] = {"table": "v", "features": ["x"], "target": "y"}


@pytest.fixture
def session(tmp_path: Path) -> Any:
    lab = sf.create(tmp_path / "lab")
    x = np.linspace(-1, 1, 50)
    rows = pa.table({"id": np.arange(50), "x": x, "y": (x > 0).astype(int)})
    columns = {"x": sf.between(-1, 1), "y": sf.one_of(0, 1)}
    budget = sf.Budget(epsilon=100, delta=1e-6)
    lab.register("v", rows, unit=sf.Unit("id", max_rows=1), columns=columns, budget=budget)
    return lab.session()


def _lie(oracle: Any) -> None:
    """Ask for a sum that is said to move by 1 and moves by thousands."""
    (feature,) = oracle.declared.features
    oracle.sums([SumBlock((feature.value,), 1, 1)])
    raise AssertionError("what was set on the object took part")


def _taken(*_: Any, **__: Any) -> Any:
    raise AssertionError("what was set on the object took part")


@pytest.mark.parametrize("name", ["_learn", "get_params", "fit_budget", "begin_fit", "__sklearn_tags__"])
def test_what_stands_for_a_method_is_ignored(session: Any, name: str) -> None:
    estimator = GaussianNB(epsilon=1.0)
    vars(estimator)[name] = _lie if name == "_learn" else _taken
    assert session.fit(estimator, **GIVEN) is estimator
    assert estimator.theta_.shape == (2, 1)
    assert "ε = 1" in str(estimator.guarantee_)


def test_so_it_is_in_an_evaluation(session: Any) -> None:
    model = session.fit(LogisticRegression(epsilon=1.0, steps=2), **GIVEN)
    for name in ("integer_weights", "accepts", "predict"):
        vars(model)[name] = _taken
    assert session.evaluate(model, table="v", target="y", epsilon=1.0).accuracy is not None


def test_weights_of_no_sense_are_no_error(session: Any) -> None:
    model = session.fit(LogisticRegression(epsilon=1.0, steps=2), **GIVEN)
    for worst in (1e300, -1e300, np.nan, np.inf):
        model.coef_ = np.full_like(model.coef_, worst)
        assert session.evaluate(model, table="v", target="y", epsilon=1.0).accuracy is not None


def test_subclasses_are_refused(session: Any) -> None:
    class Other(GaussianNB):
        pass

    with pytest.raises(UsageError) as refusal:
        session.fit(Other(epsilon=1.0), **GIVEN)
    assert refusal.value.code == "SF-E117"

    class Another(LogisticRegression):
        pass

    model = session.fit(LogisticRegression(epsilon=1.0, steps=2), **GIVEN)
    copied = Another(epsilon=1.0)
    vars(copied).update(vars(model))
    with pytest.raises((UsageError, PolicyError)):
        session.evaluate(copied, table="v", target="y", epsilon=1.0)
