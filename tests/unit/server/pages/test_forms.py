"""What people type on the pages: numbers, questions and choices, and where they are sent after signing in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.curator.catalog.description import ColumnDescription, TableDescription
from sfumato.errors import UsageError
from sfumato.queries.sql import parse_question
from sfumato.server.pages.ask_form import AskForm, split_statements
from sfumato.server.pages.builder import BuiltQuestion
from sfumato.server.pages.signing_in import keep_own_path
from sfumato.server.pages.tables import quote_name, write_example

COLUMNS = (
    ColumnDescription("ward", "text", "one of A, B", "stay NULL", False),
    ColumnDescription("cost", "number", "between 0 and 5000, in steps of 1", "stay NULL", False),
    ColumnDescription(
        'odd "name"', "date", "between 2020-01-01 and 2026-01-01, to the day", "stay NULL", False
    ),
    ColumnDescription("ill", "boolean", "one of True, False", "stay NULL", False),
)
TABLE = TableDescription("visits", "each row", "patients", None, 1, COLUMNS)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [("0.1", "0.1"), (" .5 ", "0.5"), ("0,25", "0.25"), ("1e-9", "1e-9"), ("1/3", "1/3"), ("2", "2")],
)
def test_numbers_are_sent_exactly(typed: str, sent: str) -> None:
    assert AskForm(epsilon=typed).read_spend().model_dump(exclude_none=True) == {"epsilon": sent}


@pytest.mark.parametrize(
    "typed", ["", "-1", "nan", "inf", "1e999", "0x10", "1_0", "ten", "1" * 41, "²", "1.2.3"]
)
def test_what_is_no_number_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="A number is needed") as refused:
        AskForm(epsilon=typed).read_spend()
    assert refused.value.code == "SF-W183"


def test_a_spend_is_said_in_one_way() -> None:
    form = AskForm(spend="error", epsilon="9", error="25", error_name="n", given="100")
    assert form.read_spend().model_dump(exclude_none=True) == {"error": {"n": "25"}, "given": {"n": 100}}
    both = AskForm(epsilon="0.1", delta="1e-9").read_spend().model_dump(exclude_none=True)
    assert both == {"epsilon": "0.1", "delta": "1e-9"}


def test_questions() -> None:
    asked = AskForm(sql="SELECT 1", groups="2").read_question()
    assert asked.model_dump(exclude_none=True) == {"sql": "SELECT 1", "bounded": {"groups": 2, "rows": 1}}
    for sql, code in (("  ", "SF-W183"), ("x" * 20_001, "SF-W183")):
        with pytest.raises(UsageError) as refused:
            AskForm(sql=sql).read_question()
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("-- first;\nSELECT 1; /* a; b */ SELECT 2;;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \"a;b\", e'\\';' ; SELECT 2 -- ;", ["SELECT ';', \"a;b\", e'\\';'", "SELECT 2 -- ;"]),
        ("SELECT 'open ; end", ["SELECT 'open ; end"]),
        (" ; -- nothing\n;", []),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes(text: str, statements: list[str]) -> None:
    assert split_statements(text) == statements


def test_a_form_has_one_key_for_each_question() -> None:
    """Pressing twice is one charge; another question from the same form is another one."""
    form = AskForm(sql="SELECT COUNT(*) AS n FROM visits")
    assert form.make_key() == replace(form, preview=True).make_key()
    others = [
        replace(form, sql="x"),
        replace(form, epsilon="0.2"),
        replace(form, form_key="y"),
        replace(form, rows="2"),
        replace(form, tune="2"),
    ]
    assert len({form.make_key(), *(each.make_key() for each in others)}) == 6
    assert len(replace(form, form_key="z" * 500).make_key()) <= 150


def test_choices_become_sql() -> None:
    built = BuiltQuestion("visits", ("ward",), "mean", "cost", "cost", "≥", "10.5")
    assert built.write_sql(TABLE) == (
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean_cost\nFROM visits\nWHERE cost >= 10.5\nGROUP BY ward"
    )
    dated = BuiltQuestion("visits", where='odd "name"', comparison="<", value="2024-01-01").write_sql(TABLE)
    assert dated.endswith('WHERE "odd ""name""" < DATE \'2024-01-01\'')
    assert BuiltQuestion("visits", where="ill", value="yes").write_sql(TABLE).endswith("WHERE ill = TRUE")


@pytest.mark.parametrize("value", ["x' OR '1'='1", "'; DROP TABLE visits; --", "\\'", "a\nb", "%' --"])
def test_a_value_stays_one_literal(value: str) -> None:
    """Whatever is typed into the builder is one text of the question that the parser sees."""
    sql = BuiltQuestion("visits", where="ward", value=value).write_sql(TABLE)
    asked = parse_question(sql)
    assert repr(value.strip()) in str(asked)
    assert "DROP" not in str(asked).replace(repr(value.strip()), "")


@pytest.mark.parametrize(
    "built",
    [
        BuiltQuestion("visits", by=("patient_id",)),
        BuiltQuestion("visits", function="exec", column="cost"),
        BuiltQuestion("visits", function="sum", column="cost) FROM secrets --"),
        BuiltQuestion("visits", where="1=1; --"),
        BuiltQuestion("visits", where="cost", comparison="= 1 OR 1", value="1"),
        BuiltQuestion("visits", where="cost", value="1 OR 1=1"),
        BuiltQuestion("visits", where="ward", value="x" * 501),
    ],
)
def test_what_was_not_offered_is_refused(built: BuiltQuestion) -> None:
    with pytest.raises(UsageError) as refused:
        built.write_sql(TABLE)
    assert refused.value.code == "SF-W183"


def test_examples_fit_their_table() -> None:
    columns = [(each.name, each.type, each.values) for each in COLUMNS]
    expected = "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean_cost FROM visits GROUP BY ward"
    assert write_example("visits", columns) == expected
    assert write_example("visits", []) == "SELECT COUNT(*) AS n FROM visits"
    assert quote_name("two words") == '"two words"'


@pytest.mark.parametrize("path", ["/", "/ask", "/tables/visits", "/ask?sql=SELECT+1&epsilon=0.1"])
def test_own_paths_are_kept(path: str) -> None:
    assert keep_own_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil",
        "ask",
        "",
        "/a\r\nSet-Cookie: x",
        "/\t/evil",
        "javascript:alert(1)",
    ],
)
def test_nobody_is_sent_elsewhere(path: str) -> None:
    assert keep_own_path(path) == "/"
