"""CSV for spreadsheets: nothing in it is computed, and the exact file stays as it is."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest

from sfumato.server.facts.spreadsheets import differs_for_spreadsheets, is_computed, write_csv

ATTACKS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "=cmd|' /C calc'!A0", '="a""b"']


def read(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_formulas_are_marked_and_everything_else_stays() -> None:
    table = pa.table({"=name": ATTACKS, "n": pa.array(range(-5, 5)), "x": [-0.5] * 10})
    header, *rows = read(write_csv(table, for_spreadsheets=True))
    assert header == ["'=name", "n", "x"]
    assert [row[0] for row in rows] == [f"'{text}" for text in ATTACKS]
    assert [row[1] for row in rows] == [str(at) for at in range(-5, 5)]  # a number is no text
    exact = read(write_csv(table))
    assert exact[0][0] == "=name"
    assert [row[0] for row in exact[1:]] == ATTACKS


def test_missing_values_and_listed_texts() -> None:
    listed = pa.array(["=a", None, "b", ""]).dictionary_encode()
    content = write_csv(pa.table({"t": listed}), for_spreadsheets=True)
    assert content.decode("utf-8-sig").splitlines() == ['"t"', '"\'=a"', "", '"b"', '""']


@pytest.mark.parametrize(
    ("texts", "differs"), [(["a", None], False), (["é"], True), (["=a"], True), ([], False)]
)
def test_one_file_is_offered_where_one_is_enough(texts: list[str], differs: bool) -> None:
    assert differs_for_spreadsheets(pa.table({"t": pa.array(texts, pa.string())})) is differs
    assert differs_for_spreadsheets(pa.table({"@t": [1]}))


def test_plain_texts_are_not_computed() -> None:
    assert not any(map(is_computed, ["a=b", "1-2", "", "'=1", "ward A"]))
