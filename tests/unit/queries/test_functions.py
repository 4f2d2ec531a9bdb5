"""The closed list of functions: SQL spells each one once, and the documentation names them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.curator.lower.functions import FUNCTIONS
from sfumato.errors import PolicyError
from sfumato.queries.functions import SQL_NAMES
from sfumato.queries.sql import parse_expression_text

QUESTIONS = Path(__file__).parents[3] / "docs" / "questions.md"


def test_every_function_has_a_spelling_of_its_own() -> None:
    assert len(set(SQL_NAMES)) == len([each for each in FUNCTIONS.values() if each.sql is not None])


@pytest.mark.parametrize("name", SQL_NAMES)
def test_every_function_is_documented(name: str) -> None:
    assert f"`{name}`" in QUESTIONS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SQL_NAMES)
def test_every_function_is_called_by_its_name(name: str) -> None:
    function = next(key for key, each in FUNCTIONS.items() if each.sql == name)
    arguments = ", ".join(["x", "'a'", "2"][: FUNCTIONS[function].fewest])
    assert getattr(parse_expression_text(f"{name}({arguments})"), "function", None) == function


@pytest.mark.parametrize("text", ["TRIM(note)", "MD5(note)", "JULIAN(day)", "INTEGER_DIVIDE(age, 2)"])
def test_no_other_function_is_read(text: str) -> None:
    """The curator's own names are not SQL, nor are functions of other dialects."""
    with pytest.raises(
        PolicyError, match=rf"Function {text.partition('(')[0]} is not supported\."
    ) as refusal:
        parse_expression_text(text)
    assert "hint" in str(refusal.value)
