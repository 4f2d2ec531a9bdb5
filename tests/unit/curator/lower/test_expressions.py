"""What no engine could compute for every row is refused before anything is charged."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.curator.catalog.domains import FreeTexts, Numbers
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question.relation import FunctionCall, Literal, Name
from sfumato.engines.values import Column
from sfumato.errors import PolicyError

SCOPE = Scope(
    (
        Field("age", ("visits",), LoweredValue(Column(0, "age"), Numbers(0, 110))),
        Field("note", ("visits",), LoweredValue(Column(0, "note"), FreeTexts())),
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
    assert refusal.value.code == "SF-Q132"


def test_the_piece_of_a_text_is_typed_in() -> None:
    with pytest.raises(PolicyError) as refusal:
        lower_expression(FunctionCall("contains", (Name("note"), Literal(None))), SCOPE)
    assert refusal.value.code == "SF-Q135"
