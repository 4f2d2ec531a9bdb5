"""What no engine could compute for every row is refused before anything is charged."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.curator.catalog.domains import Numbers, Texts
from sfumato.curator.lower.expressions import expression
from sfumato.curator.lower.lowered import Lowered
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question.relation import Call, Literal, Name
from sfumato.engines.values import Column
from sfumato.errors import PolicyError

SCOPE = Scope(
    (
        Field("age", ("visits",), Lowered(Column(0, "age"), Numbers(0, 110))),
        Field("note", ("visits",), Lowered(Column(0, "note"), Texts())),
    )
)
AGE = Name("age")


@pytest.mark.parametrize("function", ["least", "greatest"])
def test_the_smallest_of_many_is_written_once(function: str) -> None:
    assert expression(Call(function, (AGE,) * 20), SCOPE).domain == Numbers(0, 110)


def test_the_smallest_of_the_largest_of_the_smallest_grows_too_long_for_an_engine() -> None:
    nested: Name | Call = AGE
    for level in range(20):
        nested = Call(("least", "greatest")[level % 2], (nested, AGE))
    with pytest.raises(PolicyError) as refusal:
        expression(nested, SCOPE)
    assert refusal.value.code == "SF-Q113"


@pytest.mark.parametrize("function", ["nullif", "coalesce", "least", "add"])
def test_no_function_makes_an_integer_of_a_free_text(function: str) -> None:
    """The engine would fail at the first row that is read, and that there is one would show."""
    note = Name("note")
    with pytest.raises(PolicyError):
        expression(Call(function, (note, Call("upper", (note,)))), SCOPE)


def test_a_number_too_large_to_be_shown_is_refused() -> None:
    large = Call(
        "power", (Call("power", (Literal(Fraction(10**30)), Literal(Fraction(4)))), Literal(Fraction(4)))
    )
    with pytest.raises(PolicyError) as refusal:
        expression(Call("multiply", (AGE, large)), SCOPE)
    assert refusal.value.code == "SF-Q132"


def test_the_piece_of_a_text_is_typed_in() -> None:
    with pytest.raises(PolicyError) as refusal:
        expression(Call("contains", (Name("note"), Literal(None))), SCOPE)
    assert refusal.value.code == "SF-Q135"
