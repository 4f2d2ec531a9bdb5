"""Inversion, driven bit by bit: ties and tails are forced, because chance would never show them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.noise.laplace import GeometricLaw, LaplaceQuotient
from sfumato.noise.sampling.inversion import RationalNumber, UniformDraw, draw_in_blocks, invert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from tests.unit.noise.conftest import Script

RATES = [Fraction(1), Fraction(3, 7), Fraction(1, 10), Fraction(5), Fraction(1, 60)]


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    """Enough bits to tell 1 − e^−2000 from 1 at 320 bits."""
    with mp.workprec(3300):
        yield


def exponential(x: Fraction) -> mpf:
    return mp.exp(-mpf(x.numerator) / x.denominator)


def quotient_below(law: LaplaceQuotient, k: int) -> mpf:
    """P(X // width < k), from the definition of the law of X as a series in r."""
    r, edge = exponential(law.rate), k * law.width
    return r ** (1 - edge) / (1 + r) if edge <= 0 else 1 - r**edge / (1 + r)


def digit_below(law: GeometricLaw, k: int) -> mpf:
    r = exponential(law.rate)
    return (1 - r**k) / (1 - r**law.size) if law.size else 1 - r**k


def floor(x: mpf, bits: int) -> int:
    return int(mp.floor(x * mpf(2) ** bits))


def brackets(thresholds: list[int], truth: list[mpf], bits: int) -> bool:
    scaled = [x * mpf(2) ** bits for x in truth]
    return all(t <= x <= t + 2 for t, x in zip(thresholds, scaled, strict=True))


@pytest.mark.parametrize("rate", [*RATES, Fraction(1000), Fraction(1, 2**40), Fraction(7, 2**30 + 1)])
@pytest.mark.parametrize("bits", [64, 128, 320])
def test_thresholds_are_right(rate: Fraction, bits: int) -> None:
    width = max(1, 2 ** (int(1 / rate).bit_length() - 4))
    law, ks = LaplaceQuotient(rate, width), range(-30, 31)
    assert brackets(law.bracket_cdf(ks, bits), [quotient_below(law, k) for k in ks], bits)


@pytest.mark.parametrize("rate", [*RATES, Fraction(1, 2**40), Fraction(7, 2**30 + 1)])
@pytest.mark.parametrize("size", [2, 32, 400])
def test_digit_thresholds_are_right(rate: Fraction, size: int) -> None:
    law = GeometricLaw(rate, size)
    never, nor, *inner, always, ever = law.bracket_cdf(range(-1, size + 2), 128)
    assert (never, nor, always, ever) == (-2, -2, 2**128, 2**128)
    assert brackets(inner, [digit_below(law, k) for k in range(1, size)], 128)


@pytest.mark.parametrize("rate", [*RATES, Fraction(1000), Fraction(1, 2**40)])
def test_thresholds_without_an_end_are_right(rate: Fraction) -> None:
    law = GeometricLaw(rate, None)
    never, nor, *inner = law.bracket_cdf(range(-1, 60), 128)
    assert (never, nor) == (-2, -2)
    assert brackets(inner, [digit_below(law, k) for k in range(1, 60)], 128)
    assert law.bracket_cdf(range(-3, -1), 64) == [-2, -2]
    assert brackets(law.bracket_cdf(range(40, 43), 64), [digit_below(law, k) for k in range(40, 43)], 64)


@pytest.mark.parametrize("rate", RATES)
def test_a_table_without_an_end_holds_all_but_little(rate: Fraction) -> None:
    law = GeometricLaw(rate, None)
    table = law.build_table()
    assert table.first == 0
    assert mp.exp(-mpf(float(rate)) * len(table.thresholds)) < mpf(2) ** -63


@pytest.mark.parametrize("rate", RATES)
def test_a_range_may_begin_and_end_anywhere(rate: Fraction) -> None:
    law = LaplaceQuotient(rate, 3)
    for start in range(-5, 6):
        for stop in range(start, 6):
            truth = [quotient_below(law, k) for k in range(start, stop)]
            assert brackets(law.bracket_cdf(range(start, stop), 96), truth, 96)


@pytest.mark.parametrize("rate", RATES)
def test_every_leading_word_is_looked_up_rightly(rate: Fraction, script: type[Script]) -> None:
    """All 2^16 first steps, each followed by arbitrary bits, against inversion of the true distribution."""
    law = LaplaceQuotient(rate, 1)
    table = law.build_table()
    leading = np.arange(2**16, dtype=np.uint16)
    further = np.random.default_rng(1).integers(0, 2**64, 2**16, dtype=np.uint64)
    undecided = further[: np.count_nonzero(table.cells < 0)]
    found = table.draw(2**16, script([*leading.view(np.uint64).tolist(), *undecided.tolist()]))
    low = leading.astype(np.uint64) << np.uint64(48)
    low[table.cells < 0] |= undecided >> np.uint64(16)
    ks = range(table.first + 1, table.first + 1 + len(table.thresholds))
    with mp.workprec(300):
        truth = [floor(quotient_below(law, k), 64) for k in ks]
    expected = np.searchsorted(np.array(truth, dtype=np.uint64), low, side="right") + table.first
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rate", RATES)
def test_few_leading_words_are_undecided(rate: Fraction) -> None:
    assert np.count_nonzero(LaplaceQuotient(rate, 1).build_table().cells < 0) < 0.02 * 2**16


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("k", [-2, -1, 0, 1, 2])
def test_ties_are_settled_by_the_bits_that_follow(
    rate: Fraction, bits: int, k: int, script: type[Script]
) -> None:
    """A number that agrees with a threshold in all but the last bits falls on its own side of it."""
    law = LaplaceQuotient(rate, 1)
    table, tie = law.build_table(), floor(quotient_below(law, k), bits)
    assert table.draw(1, script.of(tie + 3, bits)).tolist() == [k]
    assert table.draw(1, script.of(tie - 3, bits)).tolist() == [k - 1]


@pytest.mark.parametrize("k", [1, 5, 31])
def test_ties_of_a_digit_are_settled_too(k: int, script: type[Script]) -> None:
    law = GeometricLaw(Fraction(1, 50), 32)
    table, tie = law.build_table(), floor(digit_below(law, k), 192)
    assert table.draw(1, script.of(tie + 3, 192)).tolist() == [k]
    assert table.draw(1, script.of(tie - 3, 192)).tolist() == [k - 1]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("bits", [192, 512])
@pytest.mark.parametrize("side", [-1, 1])
def test_tails_go_on_for_ever(rate: Fraction, bits: int, side: int, script: type[Script]) -> None:
    """Thresholds far outside the table, at about 2^−100, still part the numbers around them."""
    law = LaplaceQuotient(rate, 1)
    k = side * int(mpf(70) / (mpf(rate.numerator) / rate.denominator))
    table, tie = law.build_table(), floor(quotient_below(law, k), bits)
    assert abs(k) > len(table.thresholds) // 2
    drawn = [table.draw(1, script.of(tie + step, bits)) for step in (3, -3)]
    assert [array.tolist() for array in drawn] == [[k], [k - 1]]
    assert all(array.dtype == object for array in drawn)


def test_a_tail_takes_only_its_own_place(script: type[Script]) -> None:
    """Four draws, of which the third has 64 zero bits."""
    law = LaplaceQuotient(Fraction(1), 1)
    leads = [2**15, 2**15, 0, 2**15]
    words = [sum(lead << 16 * place for place, lead in enumerate(leads)), 0, 2**40]
    expected = invert(law, UniformDraw(2**40, 128, script()))
    assert expected < law.build_table().first
    assert law.build_table().draw(4, script(words)).tolist() == [0, 0, expected, 0]


def test_all_zeros_and_all_ones_stay_inside_a_digit(script: type[Script]) -> None:
    table = GeometricLaw(Fraction(1, 50), 32).build_table()
    assert table.draw(1, script([0, 0])).tolist() == [0]
    assert table.draw(1, script([2**64 - 1, 2**64 - 1])).tolist() == [31]
    assert invert(table.law, UniformDraw(0, 64, script())) == 0
    assert invert(table.law, UniformDraw(2**64 - 1, 64, script())) == 31


@pytest.mark.parametrize("near", [-1000, -3, 0, 4, 1000])
def test_inversion_does_not_depend_on_where_it_starts(near: int) -> None:
    law = LaplaceQuotient(Fraction(1, 10), 1)
    for share in (Fraction(1, 10**30), Fraction(1, 3), Fraction(1, 2), 1 - Fraction(1, 10**30)):
        k = invert(law, RationalNumber(share), near)
        assert quotient_below(law, k) <= mpf(share.numerator) / share.denominator < quotient_below(law, k + 1)


def test_blocks_add_up() -> None:
    asked: list[int] = []

    def draw(count: int) -> NDArray[np.int64]:
        asked.append(count)
        return np.zeros(count, dtype=np.int64)

    assert len(draw_in_blocks(draw, 200_000)) == sum(asked) == 200_000
    assert max(asked) == 2**16
    assert draw_in_blocks(draw, 0).shape == (0,)
