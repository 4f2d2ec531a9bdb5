"""Every error code that the source names has an explanation, and no explanation is left over."""

import re
from pathlib import Path

from sfumato.errors.codes import CODES

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
CODE = re.compile(r"SF-[A-Z]\d{3}")


def named_in_source() -> set[str]:
    files = (file for file in SOURCE.rglob("*.py") if file.name != "codes.py")
    return {code for file in files for code in CODE.findall(file.read_text(encoding="utf-8"))}


def test_every_code_is_explained() -> None:
    assert named_in_source() - set(CODES) == set()


def test_no_explanation_is_left_over() -> None:
    assert set(CODES) - named_in_source() == set()


def test_explanations_are_sentences() -> None:
    poor = {code for code, text in CODES.items() if not CODE.fullmatch(code) or not text.endswith((".", ")"))}
    assert poor == set()
