"""Pages made from the code say what the code says now."""

import runpy
from pathlib import Path

import pytest

from sfumato.errors.codes import CODES

DOCS = Path(__file__).parents[2] / "docs"
BUILD = runpy.run_path(str(DOCS / "build.py"))


@pytest.mark.parametrize("name", BUILD["PAGES"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == BUILD["PAGES"][name](), "run `make docs`"


def test_every_code_can_be_linked_to() -> None:
    page = BUILD["errors_page"]()
    assert all(f'<a id="{code}"></a>' in page for code in CODES)
