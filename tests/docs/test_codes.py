"""The table of error codes, the source and the tests name the same codes, and there are few of them."""

import re
from pathlib import Path

import pytest

from sfumato.errors.codes import AREAS, CODES

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "sfumato"
CODE = re.compile(r"SF-[A-Z]\d{3}")
MOST_CODES = 160


def find_codes(folder: Path, *but: Path) -> set[str]:
    files = (file for file in folder.rglob("*") if file.suffix in {".py", ".js", ".html", ".txt"})
    return {
        code
        for file in files
        if not any(file.is_relative_to(each) for each in but)
        for code in CODE.findall(file.read_text(encoding="utf-8"))
    }


def test_the_source_and_the_table_have_the_same_codes() -> None:
    assert find_codes(SOURCE, SOURCE / "errors" / "codes.py") == set(CODES)


def test_every_code_is_expected_by_a_test() -> None:
    """By text: a test that names a code expects it of a call, or of a fixture that it reads."""
    assert set(CODES) - find_codes(TESTS, TESTS / "docs") == set()


def test_there_is_one_code_for_each_kind_of_refusal() -> None:
    assert sum(map(len, AREAS.values())) == len(CODES) <= MOST_CODES


@pytest.mark.parametrize("area", AREAS)
def test_explanations_are_sentences(area: str) -> None:
    """Each says what is wrong and what to do, in a row of a table."""
    for code, text in AREAS[area].items():
        assert CODE.fullmatch(code)
        assert text.endswith((".", ")"))
        assert not re.search(r"[|\n]", text)
