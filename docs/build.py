"""Write the pages that are made from the code; `make docs` runs this and a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato.engines.support import ENGINES, SUPPORT, SupportedQuestion
from sfumato.errors.codes import CODES

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # tests run this file from elsewhere

from rooms import rooms_picture  # noqa: E402


def errors_page() -> str:
    """Return a page with one section for each error code, so that a code can be linked to."""
    sections = (f"## {code}\n\n{meaning}\n" for code, meaning in sorted(CODES.items()))
    return "\n".join([_ERRORS_HEAD, *sections])


_ERRORS_HEAD = """# Error codes

Every error has a code, one sentence, and facts in aligned fields. This page says more about each code: what
it means and what to do. `sfumato explain CODE` prints the same. `make docs` writes this page from the code.
"""


def engines_page() -> str:
    """Return a page with a table: one row for each kind of question, one column for each engine."""
    head = [
        "| question | for example | " + " | ".join(ENGINES) + " |",
        "|---|---" + "|---" * len(ENGINES) + "|",
    ]
    return "\n".join([_ENGINES_HEAD, *head, *map(_row, SUPPORT), ""])


def _row(support: SupportedQuestion) -> str:
    cells = [f"no ({support.lacking[name]})" if name in support.lacking else "yes" for name in ENGINES]
    return f"| {support.question} | `{support.example}` | {' | '.join(cells)} |"


_ENGINES_HEAD = """# Engines

Questions run where the table lives: DuckDB answers them for files and frames, inside your process; PostgreSQL
for tables in its database; Spark for Spark sources. Every engine stores the same integers for the same rows,
and before noise is added a question has the same exact answer on all of them, to the last digit. If an engine
does not support a kind of question, it raises the error code shown in its column. A test runs every example
on every engine. `make docs` writes this page from the code.
"""

PAGES = {"errors.md": errors_page, "engines.md": engines_page, "images/rooms.svg": rooms_picture}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
