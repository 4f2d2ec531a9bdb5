"""What no engine could compute for every row is refused before anything is charged."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from conformance.reference import value as reading
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers
from sfumato.curator.lower.expressions import lower_condition, lower_expression
from sfumato.curator.lower.lowered_value import LARGEST, LoweredValue, divide_by_integer, require_number
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question.relation import FunctionCall, Literal, Name
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import Column, Every, Less, Lookup, Same, Some
from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_expression_text

SCOPE = Scope(
    (
        Field("age", ("visits",), LoweredValue(Column(0, "age"), Numbers(0, 110))),
        Field("note", ("visits",), LoweredValue(Column(0, "note"), FreeTexts())),
        Field("ward", ("visits",), LoweredValue(Column(0, "ward"), Listed(("b", "C")))),
        Field("home", ("visits",), LoweredValue(Column(0, "home"), Listed(("C", "a", "b")))),
    )
)
AGE = Name("age")


@pytest.mark.parametrize("function", ["least", "greatest"])
def test_the_smallest_of_many_is_written_once(function: str) -> None:
    assert lower_expression(FunctionCall(function, (AGE,) * 20), SCOPE).domain == Numbers(0, 110)


def test_the_smallest_of_the_largest_of_the_smallest_names_each_once() -> None:
    nested: Name | FunctionCall = AGE
    for level in range(20):
        nested = FunctionCall(("least", "greatest")[level % 2], (nested, AGE))
    assert lower_expression(nested, SCOPE).domain == Numbers(0, 110)


def test_what_names_its_argument_twice_grows_too_long_for_an_engine() -> None:
    nested: Name | FunctionCall = FunctionCall("subtract", (AGE, Literal(Fraction(50))))
    for _ in range(20):
        nested = FunctionCall("sign", (FunctionCall("subtract", (nested, Literal(Fraction(1, 2)))),))
    with pytest.raises(PolicyError) as refusal:
        lower_expression(nested, SCOPE)
    assert refusal.value.code == "SF-Q113"


@pytest.mark.parametrize("function", ["nullif", "coalesce", "least", "add"])
def test_no_function_makes_an_integer_of_a_free_text(function: str) -> None:
    """The engine would fail at the first row that is read, and that there is one would show."""
    note = Name("note")
    with pytest.raises(PolicyError):
        lower_expression(FunctionCall(function, (note, FunctionCall("upper", (note,)))), SCOPE)


def test_a_number_too_large_to_be_shown_is_refused() -> None:
    large = FunctionCall(
        "power",
        (FunctionCall("power", (Literal(Fraction(10**30)), Literal(Fraction(4)))), Literal(Fraction(4))),
    )
    with pytest.raises(PolicyError) as refusal:
        lower_expression(FunctionCall("multiply", (AGE, large)), SCOPE)
    assert refusal.value.code == "SF-Q158"


def test_the_piece_of_a_text_is_typed_in() -> None:
    with pytest.raises(PolicyError) as refusal:
        lower_expression(FunctionCall("contains", (Name("note"), Literal(None))), SCOPE)
    assert refusal.value.code == "SF-Q105"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("1 = 1", True),
        ("2 <= 1", False),
        ("0.1 + 0.2 = 0.3", True),
        ("2 BETWEEN 1 AND 3 AND 2 IN (1, 2)", True),
        ("DATE '2024-01-31' < DATE '2024-02-01'", True),
        ("'a' = 'b'", False),
        ("'Z' < 'a'", True),
        ("'\uffff' < '\U0001d4b3'", True),
        ("NOT 'a' = 'a'", False),
    ],
)
def test_constants_are_compared_when_planning(condition: str, holds: bool) -> None:
    found = lower_condition(parse_expression_text(f"CASE WHEN {condition} THEN 1 END").branches[0][0], SCOPE)
    assert found == (Every() if holds else Some())


def test_texts_of_two_lists_are_compared_by_places_that_both_have() -> None:
    """A text that the other list lacks differs from all of its texts; it is not missing."""
    ward, home = Column(0, "ward"), Column(0, "home")

    def lower(sign: str) -> object:
        return lower_condition(
            parse_expression_text(f"CASE WHEN ward {sign} home THEN 1 END").branches[0][0], SCOPE
        )

    assert lower("=") == Same(Lookup(ward, (2, 0)), home)
    # By code points, C comes before a and b.
    assert lower("<") == Less(Lookup(ward, (2, 0)), home)


@pytest.mark.parametrize(
    ("values", "step"), [(("0.001", "1500000"), "0.001"), (("-7", "0.25"), "0.25"), (("0", "3", "9"), "3")]
)
def test_listed_numbers_are_exact(values: tuple[str, ...], step: str) -> None:
    numbers = tuple(map(Fraction, values))
    part, domain = require_number(LoweredValue(Column(0, "paid"), Listed(numbers)), "A number")
    assert isinstance(part.value, Lookup)
    assert domain.step == Fraction(step)
    assert tuple(entry * domain.step for entry in part.value.entries if entry is not None) == numbers
    assert part.error == 0


def test_division_by_a_constant_needs_no_more_than_64_bits() -> None:
    """How long an engine divides integers of 128 bits depends on how large they are."""
    rng, x = random.Random(1), Column(0, "x")
    for _ in range(300):
        low = -rng.randint(0, 2 ** rng.randint(1, 62) - 2)
        domain = Numbers(low, rng.randint(low, LARGEST - 2))
        divisor = rng.choice([2, 7, 2**20, 10**9, rng.randint(2, LARGEST // 2)])
        value = divide_by_integer(x, domain, divisor)
        assert ValueRanges({x: (domain.low, domain.high)}).is_narrow(value)
        read = reading(value)
        for number in {domain.low, domain.high, rng.randint(domain.low, domain.high)}:
            assert read({(0, "x"): number}) == number // divisor
        assert read({(0, "x"): None}) is None


def test_listed_numbers_that_no_integer_of_62_bits_holds_are_rounded_and_say_so() -> None:
    numbers = (Fraction("1e-9"), Fraction(10**15))
    part, domain = require_number(LoweredValue(Column(0, "paid"), Listed(numbers)), "A number")
    assert isinstance(part.value, Lookup)
    assert LARGEST // 4 <= domain.bound <= LARGEST
    off = [
        abs((entry or 0) * domain.step - number)
        for entry, number in zip(part.value.entries, numbers, strict=True)
    ]
    assert 0 < max(off) <= part.error
