"""The table of docs/attacks.md, from what benchmarks/attacks.py stored; `docs/build.py` puts it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sfumato.attacks import list_attacks
from sfumato.attacks.report import share_text

DOCS = Path(__file__).parent
STORED = DOCS / "measured" / "attacks.json"
BEGIN, END = "<!-- table of attacks -->\n", "<!-- end of the table -->"
HEAD = (
    "| attack | right means | raw answers | right | private answers | right | ceiling | a guess |",
    "|---|---|---|---|---|---|---|---|",
)


def attacks_page() -> str:
    """Return the page as it stands, with its table written anew."""
    before, _, rest = (DOCS / "attacks.md").read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    rows = [_row(each.name, stored.get(each.name)) for each in list_attacks()]
    table = "\n".join([*HEAD, *rows])
    return f"{before}{BEGIN}{table}\n{END}{after}"


def _row(name: str, report: dict[str, Any] | None) -> str:
    if report is None:
        return f"| [{name}](#{name}) | not measured | | | | | | |"
    best = {
        private: max(
            (each for each in report["outcomes"] if (each["ceiling"] is not None) == private),
            key=lambda each: float(each["success"]),
        )
        for private in (False, True)
    }
    cells = [
        f"[{name}](#{name})",
        report["right"],
        best[False]["against"],
        share_text(best[False]["success"]),
        best[True]["against"],
        share_text(best[True]["success"]),
        share_text(best[True]["ceiling"]),
        share_text(report["baseline"]),
    ]
    return f"| {' | '.join(cells)} |"
