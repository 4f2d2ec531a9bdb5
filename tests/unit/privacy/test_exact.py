"""Numbers as people type them."""

from decimal import Decimal

import pytest

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_bound
from sfumato.privacy.exact import parse_exact


@pytest.mark.parametrize("text", ["1e99999999", "-1e99999999", "1e-99999999", "0." + "0" * 2000 + "1"])
def test_decimals_with_very_many_digits_are_refused_at_once(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_exact(Decimal(text), "epsilon")
    assert refused.value.code == "SF-N101"


def test_a_decimal_zero_may_have_any_exponent() -> None:
    assert parse_exact(Decimal("0e-5"), "delta") == parse_exact(Decimal("0e99999999"), "delta") == 0


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.1 + 0.2, "0.3", "0.3"),
        (1.23441, "1.235", "1.234"),
        (1.23449, "1.235", "1.234"),
        (9.99951, "10", "9.999"),
        (1e-7 + 1e-12, "1.001e-07", "1e-07"),
        (0.0, "0", "0"),
        (123456, "123500", "123400"),
        (4, "4", "4"),
    ],
)
def test_what_says_at_most_is_never_rounded_down(value: float, up: str, down: str) -> None:
    assert float(format_bound(value, up=True).replace(",", "")) == float(up) >= value * (1 - 1e-12)
    assert float(format_bound(value, up=False).replace(",", "")) == float(down) <= value * (1 + 1e-12)
