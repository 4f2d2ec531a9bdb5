"""SQL examples of the pages for analysts are answered as plain DuckDB answers them, apart from noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import test_snippets

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parents[1]

WATCH = (
    f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(TESTS / 'docs')!r}]; "
    "import watched_pages; watched_pages.watch()"
)
PAGES = {
    "README.md": 3,
    "docs/first-hour-analyst.md": 8,
    "docs/first-hour-steward.md": 2,
}
"""Pages, and how many questions of each are compared at least."""


@pytest.mark.parametrize("page", PAGES)
def test_questions_on_a_page(tmp_path: Path, page: str) -> None:
    code = test_snippets.script((ROOT / page).read_text(encoding="utf-8"))
    code = f"{WATCH}{code}\nwatched_pages.require_questions({PAGES[page]})\n"
    done = test_snippets.run(test_snippets.with_patience(code), tmp_path)
    assert done.returncode == 0, f"lines are those of {page}\n{done.stderr}"
