"""Quotes, answers and entries as people see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.ledger.chain import GENESIS, Entry, write_body
from sfumato.server.pages import ledger as ledger_page
from sfumato.server.pages.ledger import EntryLine, LedgerFilter, describe_entry, list_entries
from sfumato.server.pages.quote_view import view_quote
from sfumato.server.pages.release_view import (
    list_receipt,
    view_release,
    write_python,
    write_question,
    write_spend,
)
from sfumato.server.pages.rendering import make_slug, show_left, show_number, show_share

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER: dict[str, Any] = {
    "columns": {"ward": ["A", None], "n": [1647, -3], "mean": [686.359, None]},
    "interval": {
        "ward": ["A", None],
        "n_low": [1600.0, -50.0],
        "n_high": [1694.0, 44.0],
        "mean_low": [600.0, None],
        "mean_high": [700.0, None],
    },
    "text": "…",
}


def test_numbers_are_short() -> None:
    shown = [show_number(each) for each in (None, 3, 1234567, 0.5, 1 / 3, 12345.678, -2.0)]
    assert shown == ["–", "3", "1,234,567", "0.5", "0.3333", "12,346", "-2"]
    assert [show_share(each) for each in (0, 0.001, 0.5, 1)] == ["0 %", "under 1 %", "50 %", "100 %"]
    assert make_slug("Your quota on patient_id") == "your-quota-on-patient-id"
    assert make_slug("→") == "item"


def test_an_answer_is_a_table_and_charts() -> None:
    view = view_release(ANSWER)
    assert view.header == ["ward", "n", "n, 95 % interval", "mean", "mean, 95 % interval"]
    assert view.rows == [
        ["A", "1,647", "1,600 to 1,694", "686.4", "600 to 700"],
        ["missing", "-3", "-50 to 44", "–", "not known"],
    ]
    assert view.numbers == [1, 3]
    assert [chart.title for chart in view.charts] == ["n by ward", "mean by ward"]
    drawn = view.charts[1].spec["data"]["values"]
    assert [cell["label"] for cell in drawn] == ["A"]  # what is not known is not drawn


def test_long_answers_are_cut_on_the_page() -> None:
    answer = {"columns": {"n": list(range(250))}, "interval": {}}
    view = view_release(answer)
    assert (len(view.rows), view.hidden, view.charts) == (200, 50, [])


def test_an_answer_without_columns_is_its_text() -> None:
    assert view_release({"values": ["A"], "text": "A\ncharged"}).plain == "A\ncharged"


@pytest.mark.parametrize(
    ("question", "spend", "line"),
    [
        ({"sql": "SELECT 1"}, {"epsilon": "0.1"}, "s.sql(\"SELECT 1\").release(epsilon='0.1')"),
        ({"sql": "SELECT 'a\"b'"}, {"rho": 1}, 's.sql("SELECT \'a\\"b\'").release(rho=1)'),
        (
            {"sql": "S", "bounded": {"groups": 1, "rows": 2}},
            {"epsilon": 1},
            's.sql("S").bounded(groups=1, rows=2).release(epsilon=1)',
        ),
        (
            {"table": "visits", "steps": [["where", ["age >= 65"], {}], ["top", ["ward"], {"k": 2}]]},
            {"error": {"n": 5}},
            "s.table('visits').where('age >= 65').top('ward', k=2).release(error={'n': 5})",
        ),
    ],
)
def test_python_is_a_program(question: dict[str, Any], spend: dict[str, Any], line: str) -> None:
    text = write_python(question, spend, "http://127.0.0.1:8000")
    compile(text, "copied", "exec")
    assert f"r = {line}\n" in text


def test_hostile_questions_stay_texts_of_the_program() -> None:
    """Whoever copies the program runs it, so no question may leave its quotes."""
    for sql in ('"""); import os #\n', "a\\", '"\n"', "\u2028", '""" """\n'):
        text = write_python({"sql": sql}, {"epsilon": 1}, "http://x")
        import ast

        called = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        texts = [arg.value for node in called for arg in node.args if isinstance(arg, ast.Constant)]
        assert sql in texts
        assert not any(
            isinstance(node, ast.Import) and node.names[0].name == "os" for node in ast.walk(ast.parse(text))
        )


def test_words() -> None:
    assert write_question({"sql": "SELECT\n  1"}) == "SELECT 1"
    assert write_spend({"epsilon": "0.1", "delta": "1e-9"}) == "ε = 0.1, δ = 1e-9"
    assert write_spend({"error": {"n": 25}}) == "error = n ± 25"
    receipt = {"entry": 5, "unit": "patient_id", "charged": "ε = 1", "guess": "0.7311", "head": "ab"}
    assert (
        "odds",
        "by this answer alone, a 50:50 guess about one patient_id is right at most 73.2 % of the time",
    ) in list_receipt({"receipt": receipt})


def test_a_quote_says_what_is_left_or_why_not() -> None:
    said = {
        "admitted": True,
        "free": False,
        "price": "ε = 0.1",
        "left": 1.0,
        "left_after": 0.9,
        "expected_error": {"n": 645.0, "c": None},
        "slot": 1.0,
        "bias": ["b"],
        "text": "",
    }
    view = view_quote(said)
    assert view.errors == [("n", "± 645"), ("c", "known with the answer")]
    assert (view.left, view.left_after, view.slot, view.why_not) == (
        "ε = 1",
        "ε = 0.9 (90 % of what is left now)",
        "1 s",
        "",
    )
    refused = view_quote({**said, "admitted": False, "left_after": None, "price": "ε = 3"})
    assert refused.why_not.startswith("Not enough is left for ε = 3. ε = 1 is left at most.")
    assert view_quote({"admitted": True, "free": True, "text": "facts"}).price == "nothing"


def make_entries() -> list[Entry]:
    bodies: list[tuple[Any, dict[str, Any]]] = [
        (
            "account",
            {
                "account": "population:p",
                "budget": {"epsilon": "4", "delta": "1/10000000"},
                "at": "2026-01-01",
            },
        ),
        (
            "charge",
            {
                "accounts": ["population:p"],
                "about": {"analyst": "ada", "question": "SELECT <b>", "spend": "ε = 1"},
                "at": "2026-01-02",
            },
        ),
        ("release", {"charge": 2, "commitment": ""}),
    ]
    entries, head = [], GENESIS
    for at, (kind, body) in enumerate(bodies):
        entries.append(Entry.make_next(at, head, kind, write_body(body)))
        head = entries[-1].hash
    return entries


def test_entries_are_filtered() -> None:
    entries = make_entries()
    assert describe_entry(entries[0]).about == "population:p: ε = 4, δ = 1e-07"
    line = describe_entry(entries[1])
    assert (line.who, line.about, line.spend, line.day) == ("ada", "SELECT <b>", "ε = 1", "2026-01-02")

    ledger: Any = SimpleNamespace(read_entries=lambda after: iter(entries[after:]))

    def find(**asked: Any) -> list[int]:
        return [each.seq for each in list_entries(ledger, len(entries), LedgerFilter(**asked))[0]]

    assert find() == [3, 2, 1]
    assert find(kind="charge") == [2]
    assert find(who="ADA") == [2]
    assert find(text="select <B>") == [2]
    assert find(text=entries[2].hash[:8]) == [3]
    assert find(before=3) == [2, 1]
    assert find(who="nobody") == []


def test_the_newest_entries_are_read_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages follow on each other without a gap, and a view reads no more than it may."""
    monkeypatch.setattr(ledger_page, "SHOWN", 3)
    monkeypatch.setattr(ledger_page, "READ_AT_ONCE", 4)
    monkeypatch.setattr(ledger_page, "MOST_READ", 8)
    entries = [Entry.make_next(at, GENESIS, "lab" if at % 2 else "grant", "{}") for at in range(20)]
    monkeypatch.setattr(ledger_page, "describe_entry", lambda each: EntryLine(each.seq, each.kind, *"abcde"))
    read = list[int]()

    def read_entries(after: int) -> Iterator[Entry]:
        for entry in entries[after:]:
            read.append(entry.seq)
            yield entry

    ledger: Any = SimpleNamespace(read_entries=read_entries)
    pages, before = list[list[int]](), 0
    while before != 1:
        read.clear()
        lines, before = list_entries(ledger, 20, LedgerFilter(kind="lab", before=before))
        pages.append([each.seq for each in lines])
        assert len(read) <= 8
    every = [each.seq for each in reversed(entries) if each.kind == "lab"]
    assert [seq for page in pages for seq in page] == every


def test_what_is_left_is_rounded_down() -> None:
    assert [show_left(each) for each in (0.30000000000000004, 1.99999, 12345.6, 1.5e-7)] == [
        "0.3",
        "1.999",
        "12,340",
        "1.5e-07",
    ]
