"""sf.noise.laplace: whole numbers in, whole numbers out, anything else refused before a draw."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import noise
from sfumato.errors import UsageError

CLOSE = 200  # at ε = 1 the noise passes this with probability below 1e-86


def test_an_integer_gives_an_integer() -> None:
    for value in (5, np.int8(5), np.uint64(5), np.array(5)):
        noisy = noise.laplace(value, epsilon=1.0)
        assert type(noisy) is int
        assert abs(noisy - 5) < CLOSE


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1, 2),
        [[1, 2], [3, 4]],
        np.zeros((2, 3, 4), dtype=np.int32),
        np.arange(4, dtype=np.uint8),
        pd.Series([1, 2, 3]),
        np.array([np.int64(3), 4], dtype=object),
    ],
)
def test_arrays_keep_their_shape(values: Any) -> None:
    noisy = noise.laplace(values, sensitivity=2, epsilon=2)
    assert (noisy.shape, noisy.dtype) == (np.shape(values), np.int64)
    assert np.abs(noisy - np.asarray(values)).max() < CLOSE


@pytest.mark.parametrize("wide", [2**63, 2**200, -(2**63) - 1])
def test_integers_of_any_size(wide: int) -> None:
    assert abs(noise.laplace(wide, epsilon=1) - wide) < CLOSE
    mixed = noise.laplace([wide, np.int64(2**63 - 1), -1], epsilon=1)
    assert all(type(value) is int for value in mixed)
    assert [abs(a - b) < CLOSE for a, b in zip(mixed, [wide, 2**63 - 1, -1], strict=True)] == [True] * 3


def test_a_list_that_numpy_would_make_floats_of() -> None:
    """2**63 fits no signed and −1 no unsigned word; the double in between would lose the last digits."""
    noisy = noise.laplace([2**63 + 1, -1], epsilon=Fraction(1000))
    assert noisy.tolist() == [2**63 + 1, -1]


def test_unsigned_words_do_not_wrap() -> None:
    noisy = noise.laplace(np.array([2**64 - 1, 0], dtype=np.uint64), epsilon=Fraction(1000))
    assert noisy.tolist() == [2**64 - 1, 0]


@pytest.mark.parametrize(
    "values",
    [
        1.0,
        True,
        None,
        "5",
        float("nan"),
        {1, 2},
        [1, 2.0],
        [True, 2],
        [[1], [1, 2]],
        [1, None],
        np.array([1.0]),
        np.array([True]),
        np.array(["1"]),
        np.array([1, np.True_], dtype=object),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        pd.Series([1, None], dtype="Int64"),
    ],
)
def test_anything_but_whole_numbers_is_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="SF-N202"):
        noise.laplace(values, epsilon=1)


@pytest.mark.parametrize("values", [[], np.zeros((0, 3), dtype=np.int64), [[], []]])
def test_nothing_is_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="SF-N203"):
        noise.laplace(values, epsilon=1)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"epsilon": 0}, "SF-N101"),
        ({"epsilon": -1}, "SF-N101"),
        ({"epsilon": float("nan")}, "SF-N105"),
        ({"epsilon": float("inf")}, "SF-N105"),
        ({"epsilon": "1"}, "SF-N104"),
        ({"epsilon": True}, "SF-N104"),
        ({"epsilon": 1, "sensitivity": 0}, "SF-N101"),
        ({"epsilon": 1, "sensitivity": 1.5}, "SF-N104"),
        ({"epsilon": 1001}, "SF-N201"),
        ({"epsilon": 1e-16}, "SF-N201"),
        ({"epsilon": 1, "sensitivity": 2**53}, "SF-N201"),
    ],
)
def test_settings_that_cannot_be_right(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        noise.laplace(1, **settings)


def test_a_refusal_holds_no_data_value() -> None:
    with pytest.raises(UsageError) as refused:
        noise.laplace([1, 424242.5], epsilon=1)
    assert "424242" not in str(refused.value)


def test_importing_noise_imports_nothing_heavy() -> None:
    heavy = "scipy", "mpmath", "dp_accounting", "pandas", "pyarrow", "duckdb"
    listed = "import sys, sfumato.noise; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert not {name.split(".")[0] for name in run.stdout.split()} & set(heavy)
