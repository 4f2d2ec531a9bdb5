"""Numbers as people type them."""

from decimal import Decimal

import pytest

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_exact


@pytest.mark.parametrize("text", ["1e99999999", "-1e99999999", "1e-99999999", "0." + "0" * 2000 + "1"])
def test_decimals_with_very_many_digits_are_refused_at_once(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_exact(Decimal(text), "epsilon")
    assert refused.value.code == "SF-N101"


def test_a_decimal_zero_may_have_any_exponent() -> None:
    assert parse_exact(Decimal("0e-5"), "delta") == parse_exact(Decimal("0e99999999"), "delta") == 0
