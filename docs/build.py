"""Write the pages that are made from the code; `make docs` runs this and a test compares."""

from __future__ import annotations

from pathlib import Path

from sfumato.codes import CODES

DOCS = Path(__file__).parent


def errors_page() -> str:
    """One section for each error code, so that a code can be linked to."""
    sections = (f"## {code}\n\n{meaning}\n" for code, meaning in sorted(CODES.items()))
    return "\n".join([_ERRORS_HEAD, *sections])


_ERRORS_HEAD = """# Error codes

Every error has a code, one sentence, and facts in aligned fields. This page says more about each code: what
it means and what to do. `sfumato explain CODE` prints the same. `make docs` writes this page from the code.
"""

PAGES = {"errors.md": errors_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
