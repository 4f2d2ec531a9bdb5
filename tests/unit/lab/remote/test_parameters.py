"""Estimators and generators travel by their names and parameters, from a closed list."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.lab.remote.parameters import decode_model, encode_model, list_model_names

MODELS = [
    sf.learn.LogisticRegression(epsilon=0.5),
    sf.learn.LogisticRegression(epsilon=Fraction(1, 3), delta=1e-7, classes=["no", "yes"]),
    sf.learn.GaussianNB(epsilon=1, bounds=(-1.0, 1.0)),
    sf.learn.GaussianNB(epsilon=1, bounds={"age": (0, 110)}, missing={"age": "indicator"}),
    sf.synth.Marginals(epsilon=1, delta=1e-8, workload=[("age", "ward")], bins={"age": 5}),
    sf.synth.Moments(rho=0.1, size=2),
    sf.synth.Twin(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda each: type(each).__name__)
def test_models_come_back_as_they_were(model: Any) -> None:
    made = decode_model(json.loads(json.dumps(encode_model(model))))
    assert type(made) is type(model)
    assert encode_model(made) == encode_model(model)


def test_arrays_come_back_as_arrays() -> None:
    made = decode_model(encode_model(sf.learn.GaussianNB(epsilon=1, bounds=np.array([[0.0, 1], [2, 3]]))))
    assert made.bounds.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_the_list_is_what_the_curator_fits() -> None:
    assert set(sf.learn.ESTIMATORS) <= set(list_model_names())
    assert not {"ColumnTransformer", "Diffusion", "Account", "load", "huber"} & set(list_model_names())


class Mine(sf.learn.LogisticRegression):
    """A subclass, whose methods are its author's."""


@pytest.mark.parametrize("model", [Mine(epsilon=1), object(), sf.synth.Diffusion(epsilon=1, delta=1e-6)])
def test_no_other_model_is_sent(model: Any) -> None:
    with pytest.raises(UsageError, match="SF-E117"):
        encode_model(model)


def test_functions_are_not_sent() -> None:
    with pytest.raises(UsageError, match="SF-W104"):
        encode_model(sf.learn.LogisticRegression(epsilon=print))


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (None, "SF-W104"),
        ({"name": "LogisticRegression"}, "SF-W104"),
        ({"name": "os.system", "parameters": {}}, "SF-E117"),
        ({"name": "ColumnTransformer", "parameters": {"transformers": []}}, "SF-E117"),
        ({"name": "load", "parameters": {"path": "x"}}, "SF-E117"),
        ({"name": "LogisticRegression", "parameters": {"budget": 1}}, "SF-E187"),
        ({"name": "LogisticRegression", "parameters": {"__class__": 1}}, "SF-E187"),
        ({"name": "Search", "parameters": {"epsilon": 1}}, "SF-E117"),
        ({"name": "LogisticRegression", "parameters": {"epsilon": {"fraction": "1e999999999"}}}, "SF-W104"),
        ({"name": "LogisticRegression", "parameters": {"epsilon": {"array": [[1], [1, 2]]}}}, "SF-W104"),
        (
            {"name": "LogisticRegression", "parameters": {"epsilon": {"array": [{"fraction": "1/2"}]}}},
            "SF-W104",
        ),
        ({"name": "LogisticRegression", "parameters": {"epsilon": {"pairs": [[[1], 1]]}}}, "SF-W104"),
        ({"name": "LogisticRegression", "parameters": {"epsilon": {"a": 1, "b": 2}}}, "SF-W104"),
        ({"name": "LogisticRegression", "parameters": {"epsilon": {"model": {"name": "x"}}}}, "SF-W104"),
    ],
    ids=str,
)
def test_what_is_not_listed_is_refused(written: object, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_model(written)
    assert refused.value.code == code


def test_depth_is_limited() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    with pytest.raises(UsageError, match="SF-W104"):
        decode_model({"name": "GaussianNB", "parameters": {"bounds": deep}})
