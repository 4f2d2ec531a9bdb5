"""Numbers as people read them, written in one place."""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.errors.numbers import (
    format_bound,
    format_cell,
    format_decimal,
    format_error,
    format_label,
    format_measured,
    format_number,
    format_range,
    format_remaining,
    format_share,
    format_typed,
    useful_places,
)

SOURCES = Path(sfumato.__file__).parent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (998_600, "998,600"),
        (998_612.3, "998,612"),
        (9.986e5, "998,600"),
        (12_345.678, "12,346"),
        (1234.5678, "1,235"),
        (1 / 3, "0.3333"),
        (0.5, "0.5"),
        (-2.0, "-2"),
        (9.99996, "10"),
        (0.001, "0.001"),
        (0.00012345, "0.0001234"),
        (1e-7, "1e-07"),
        (123_456_789_012_345, "123,456,789,012,345"),
        (2e15, "2e+15"),
        (Fraction(1, 8), "0.125"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "unknown"),
        (True, "1"),
    ],
)
def test_a_number_has_commas_and_four_digits(value: Any, text: str) -> None:
    assert format_number(value) == text


def test_no_number_between_a_thousandth_and_a_billiard_has_a_power_of_ten() -> None:
    for power in range(-3, 15):
        for digits in (1.0, 1.23456789, 9.87654321):
            number = digits * 10.0**power
            for text in (format_number(number), format_cell(number), format_error(number)):
                assert "e" not in text
                assert float(text.replace(",", "")) == pytest.approx(
                    number, rel=0.5 if "0.00" in text else 0.01
                )


def test_nothing_is_a_negative_zero() -> None:
    assert format_decimal(-0.0004, 3) == "0.000"
    assert format_number(-0.0) == "0"
    assert format_range(-0.075, -0.0001, 3) == "-0.075 – 0.000"


def test_bounds_are_rounded_away_from_what_they_bound() -> None:
    assert (format_bound(0.123456, up=True), format_bound(0.123456, up=False)) == ("0.1235", "0.1234")
    assert (format_bound(12_345.6, up=True), format_bound(12_345.6, up=False)) == ("12,350", "12,340")
    assert format_bound(0.1 + 0.2, up=True) == "0.3"
    assert [format_remaining(each) for each in (2, 1.95, 12_345.6)] == ["2.0", "1.95", "12,340"]


def test_shares_typed_numbers_keys_and_cells() -> None:
    assert [format_share(each) for each in (0, 0.6225, 1)] == ["0.0 %", "62.3 %", "100.0 %"]
    assert format_share(0.5, 0) == "50 %"
    assert format_typed(12_345.6) == "12346"
    assert [format_label(each) for each in (2024, 2024.0, None, "A", True)] == [
        "2024",
        "2024",
        "null",
        "A",
        "True",
    ]
    assert [format_cell(each) for each in (2024, 1 / 3, None, "A")] == ["2,024", "0.333333", "null", "A"]
    assert format_measured(1245.8123, useful_places(1245.8123, 978.0, 1502.0)) == "1,246"
    assert format_range(math.nan, math.nan, 3) == "not known"


ALLOWED = {
    "errors/numbers.py": "the formatter",
    "viz/icons.py": "coordinates of a picture",
    "learn/convex/losses.py": "the name of a loss, which is hashed",
    "curator/catalog/schema_file.py": "exact numbers of a file that is read back",
    "server/facts/declaring.py": "an exact number that is typed",
    "privacy/tools/planning.py": "a number that is rounded, and not printed",
    "privacy/exact.py": "a number that is read back",
    "queries/aggregations.py": "the end of a range, which is a key",
}
"""Files that write numbers in a format of their own, and why."""
_SPEC = re.compile(r"[,_]?(?:\.\d+)?[eEfFgG%]$")


def test_no_number_is_printed_in_another_format() -> None:
    found = [
        f"{file.relative_to(SOURCES)}:{node.lineno}"
        for file in sorted(SOURCES.rglob("*.py"))
        if file.relative_to(SOURCES).as_posix() not in ALLOWED
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.FormattedValue)
        and isinstance(node.format_spec, ast.JoinedStr)
        and any(
            isinstance(part, ast.Constant) and _SPEC.search(str(part.value))
            for part in node.format_spec.values
        )
    ]
    assert found == []
