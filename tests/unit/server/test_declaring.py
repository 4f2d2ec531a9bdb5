"""A declaration as it is typed: nothing is filled in, and each field is read by its own rule."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.privacy import ROW
from sfumato.server.facts.declaring import TypedColumn, TypedDeclaration, read_source


def declare(**fields: str) -> TypedDeclaration:
    said = {"table": "visits", "protects": "column", "unit": "id", "max_rows": "3", "epsilon": "0.1"}
    return TypedDeclaration("upload:x", (), **said | fields)  # type: ignore[arg-type]


def test_a_new_form_declares_nothing() -> None:
    empty = TypedDeclaration("upload:x", (TypedColumn("age", "numbers"),), table="visits")
    with pytest.raises(UsageError, match="who is protected"):
        empty.read_schema()
    assert empty.budget is None


def test_what_is_typed_is_read_exactly() -> None:
    schema = declare(delta="1e-7", population="patients").read_schema()
    assert schema.unit == sf.Unit("id", max_rows=3, of="patients")
    assert schema.budget == sf.Budget(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))
    assert declare(protects="row").read_schema().unit == ROW
    assert declare(epsilon="").read_schema().budget is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": " "},
        {"max_rows": "many"},
        {"max_rows": ""},
        {"unit": ""},
        {"epsilon": "inf"},
        {"epsilon": "1e999"},
    ],
)
def test_a_field_that_cannot_be_read_is_named_and_not_repeated(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        declare(**wrong).read_schema()
    assert refused.value.code == "SF-W192"
    assert not any(typed.strip() and typed in str(refused.value) for typed in wrong.values())


def test_columns_are_read_by_their_kind() -> None:
    assert TypedColumn("age", "numbers", "number", "0", "110").read() == sf.between(0, 110)
    day = TypedColumn("day", "dates", "date", "2026-01-01", "2026-12-31").read()
    assert day == sf.between(date(2026, 1, 1), date(2026, 12, 31))
    assert TypedColumn("ward", "texts", "list", values="A\nB, C\n").read() == sf.one_of("A", "B, C")
    assert TypedColumn("ill", "numbers", "list", values="0, 1", missing="0").read() == sf.one_of(
        0, 1, missing=0
    )
    assert TypedColumn("note", "texts", "text", constant=True).read() == sf.text(constant=True)


def test_a_list_for_a_csv_file_says_by_itself_whether_it_holds_numbers() -> None:
    assert TypedColumn("ill", "texts", "list", values="0,1", in_csv=True).read() == sf.one_of(0, 1)
    assert TypedColumn("zip", "texts", "list", values="01234,9", in_csv=True).read() == sf.one_of(
        "01234", "9"
    )
    assert TypedColumn("ill", "texts", "list", values='"0","1"', in_csv=True).read() == sf.one_of("0", "1")
    assert TypedColumn("ill", "texts", "list", values="0,1").read() == sf.one_of("0", "1")


def test_a_source_is_a_file_that_was_sent_or_one_in_a_folder() -> None:
    assert read_source("upload:abc.csv") == {"upload": "abc.csv"}
    assert read_source("path:a/b.csv") == {"path": "a/b.csv"}
    assert read_source("/etc/passwd") == {"path": ""}
