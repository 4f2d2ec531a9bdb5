"""The tables of docs/audit.md, from what benchmarks/audit.py stored; `docs/build.py` puts them there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
STORED = DOCS / "measured" / "audit.json"
HEADS = {
    "gallery": ("mistake", "source", "what is wrong", "claimed ε", "ε is above", "what showed it"),
    "power": ("measured", "figure"),
    "catalogue": ("shipped", "kind", "claim", "verdict"),
    "peers": ("library", "claim", "what was run", "verdict"),
    "final": (
        "rows and canaries",
        "canaries",
        "claimed ε",
        "test accuracy",
        "ε is above",
        "if Gaussian",
        "CPU s",
    ),
}


def audit_page() -> str:
    """Return the page as it stands, with its tables written anew."""
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    for name, head in HEADS.items():
        begin, end = f"<!-- table of {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{_table(head, stored[name])}\n{end}{after}" if rest else page
    return page


def _table(head: tuple[str, ...], rows: list[list[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(_cell(each) for each in row[: len(head)])} |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text.replace("|", "/")
