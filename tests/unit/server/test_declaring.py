"""A declaration as it is typed: nothing is filled in, and each field is read by its own rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.privacy import ROW
from sfumato.server.facts.declaring import TypedColumn, TypedDeclaration, read_source
from sfumato.server.steward.sources import name_databases


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


def test_bounds_are_chosen_where_an_epsilon_is_typed() -> None:
    cost = TypedColumn("cost", "numbers", "number", choose="0.05")
    typed = replace(declare(max_rows="", choose_rows="0.1"), columns=(cost, TypedColumn("x", "texts")))
    said = typed.read_schema()
    assert said.unit == sf.Unit("id", max_rows=sf.choose(epsilon=Fraction(1, 10)))
    assert said.columns == {"cost": sf.between(sf.choose(epsilon=Fraction(1, 20)))}
    assert typed.choice_price == "ε = 0.15"
    assert declare().choice_price == ""
    assert declare(choose_rows="much").choice_price == ""
    with pytest.raises(UsageError, match="most rows of one unit"):
        declare(choose_rows="0.1").read_schema()
    with pytest.raises(UsageError, match="cost: "):
        replace(cost, low="3").read()
    with pytest.raises(UsageError, match="ε for the bounds of cost"):
        replace(cost, choose="much").read()


def test_a_table_whose_number_of_rows_is_public() -> None:
    said = declare(protects="row-replaced", rows="40").read_schema()
    assert (said.unit, said.neighbours, said.rows) == (ROW, sf.REPLACE_ONE, 40)
    with pytest.raises(UsageError, match="number of rows"):
        declare(protects="row-replaced").read_schema()


def test_a_graph_has_two_ends_a_bound_and_no_columns() -> None:
    ends = {"left": "caller", "right": "called", "max_degree": "20", "population": "people"}
    columns = (TypedColumn("caller", "texts", "text"),)
    typed = replace(declare(protects="node", **ends), columns=columns)
    assert typed.read_schema().unit == sf.Node("caller", "called", max_degree=20, of="people")
    assert typed.read_schema().columns == {}
    assert declare(protects="edge", **ends).read_schema().unit == sf.Edge(
        "caller", "called", max_degree=20, of="people"
    )
    with pytest.raises(UsageError, match="most edges of one node"):
        declare(protects="node", **ends | {"max_degree": ""}).read_schema()
    with pytest.raises(UsageError, match="twin"):
        declare(protects="node", twin="declared", **ends).read_twin()


def test_a_twin_is_none_free_or_bought() -> None:
    assert declare().read_twin() is None
    free, bought = declare(twin="declared").read_twin(), declare(twin="bought", twin_rho="0.01").read_twin()
    assert free is not None
    assert not free.is_bought
    assert bought is not None
    assert bought.rho == Decimal("0.01")
    with pytest.raises(UsageError, match="ρ of the twin"):
        declare(twin="bought").read_twin()


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
    assert refused.value.code == "SF-W183"
    assert not any(typed.strip() and typed in str(refused.value) for typed in wrong.values())


def test_columns_are_read_by_their_kind() -> None:
    assert TypedColumn("age", "numbers", "number", "0", "110").read() == sf.between(0, 110)
    assert TypedColumn("age", "numbers", "number", "0", "110", "0.5").read() == sf.between(0, 110, 0.5)
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
    named = read_source("database:postgresql://maria@db/clinic#public.visits")
    assert named == {"database": "postgresql://maria@db/clinic", "table": "public.visits"}


def test_databases_are_named_without_their_passwords() -> None:
    addresses = [
        "postgresql://maria:secret@db.example:5433/clinic?sslpassword=secret",
        "postgresql://maria@/postgres?host=/run/pg&password=secret",
        "spark:catalog.clinic",
    ]
    assert list(name_databases(addresses)) == [
        "postgresql://maria@db.example:5433/clinic",
        "postgresql://maria@/postgres",
        "spark:catalog.clinic",
    ]
    with pytest.raises(UsageError, match="SF-W124"):
        name_databases(["postgresql://a:1@db/x", "postgresql://a:2@db/x"])
