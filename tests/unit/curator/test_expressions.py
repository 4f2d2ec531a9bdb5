"""A short text can mean a long computation: it is refused before anything is charged."""

from __future__ import annotations

import pytest

from sfumato.curator.domains import Numbers
from sfumato.curator.expressions import expression
from sfumato.curator.lowered import Lowered
from sfumato.curator.relation import Call, Name
from sfumato.curator.scope import Field, Scope
from sfumato.engines.values import Column
from sfumato.errors import PolicyError

SCOPE = Scope((Field("age", ("visits",), Lowered(Column(0, "age"), Numbers(0, 110))),))
AGE = Name("age")


@pytest.mark.parametrize("function", ["least", "greatest"])
def test_the_smallest_of_many_is_too_long_for_an_engine(function: str) -> None:
    assert expression(Call(function, (AGE,) * 7), SCOPE).domain == Numbers(0, 110)
    with pytest.raises(PolicyError) as refusal:
        expression(Call(function, (AGE,) * 12), SCOPE)
    assert refusal.value.code == "SF-Q113"
