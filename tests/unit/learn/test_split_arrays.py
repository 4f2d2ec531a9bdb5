"""A hold-out of own arrays follows the units: no other row, and no order of rows, takes part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import learn
from sfumato.errors import SfumatoError

RNG = np.random.default_rng(9)
WHO = RNG.integers(0, 3000, 9000)
FRAME = pd.DataFrame({"who": WHO, "age": RNG.uniform(0, 100, 9000)})


def test_units_stay_together_and_the_rest_does_not_matter() -> None:
    train, test, kept, left = learn.train_test_split(FRAME, WHO, units=WHO, train_size=0.7, key="april")
    assert not set(train.who) & set(test.who)
    assert sorted([*train.index, *test.index]) == list(range(9000))
    assert (kept == train.who).all()
    assert (left == test.who).all()
    # Seven units in ten, up to five standard deviations of so many coins.
    assert abs(len(set(train.who)) / len(set(WHO)) - 0.7) < 5 * np.sqrt(0.21 / 3000)
    fewer = FRAME[FRAME.who != 7].sample(frac=1, random_state=1)
    again, _ = learn.train_test_split(fewer, units=fewer.who, train_size=0.7, key="april")
    assert set(again.who) == set(train.who) - {7}
    other, _ = learn.train_test_split(FRAME, units=WHO, train_size=0.7, key="may")
    assert set(other.who) != set(train.who)


def test_rows_without_units_are_drawn_one_by_one() -> None:
    first, second = learn.train_test_split(list(range(20_000)))
    assert sorted([*first, *second]) == list(range(20_000))
    assert abs(len(first) - 16_000) < 5 * np.sqrt(20_000 * 0.16)


@pytest.mark.parametrize(
    ("arrays", "given"),
    [
        ((), {}),
        ((FRAME,), {"train_size": 1}),
        ((FRAME,), {"train_size": "most"}),
        ((FRAME,), {"key": "april"}),
    ],
)
def test_what_would_follow_places_is_refused(arrays: Any, given: Any) -> None:
    with pytest.raises(SfumatoError) as refused:
        learn.train_test_split(*arrays, **given)
    assert refused.value.code == "SF-U104"
