"""All attacks, on raw answers and on private ones, beside the ceilings.

    python benchmarks/attacks.py [NAME ...] [--keep]

With `--keep` the figures are stored in docs/measured/attacks.json, and `python docs/build.py` writes the
table of docs/attacks.md from them. It ends with 1 if a ceiling is broken, or if an attack does not win on
raw answers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import sfumato as sf

STORED = Path(__file__).parents[1] / "docs" / "measured" / "attacks.json"
WON = 0.5
"""How far of the way from a guess to certainty an attack must get on raw answers to count as won."""


def main() -> int:
    """Run the attacks named, or all of them; store and judge what they found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="attacks to run; all without it")
    parser.add_argument("--keep", action="store_true", help="store the figures")
    wanted = parser.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    wrong = []
    for each in sf.attacks.list_attacks():
        if wanted.names and each.name not in wanted.names:
            continue
        start = time.process_time()
        try:
            report = each.run()
        except sf.errors.UsageError as error:
            print(f"{each.name}: NOT MEASURED\n{error}\n", file=sys.stderr)
            continue
        seconds = time.process_time() - start
        print(f"{report}\n{seconds:.1f} CPU s\n", flush=True)
        stored[each.name] = {**report.to_dict(), "seconds": round(seconds, 1)}
        least = report.baseline + WON * (1 - report.baseline)
        if report.breaks_ceiling or report.raw.success < least:
            wrong.append(each.name)
    if wanted.keep:
        order = [each.name for each in sf.attacks.list_attacks() if each.name in stored]
        kept = json.dumps({name: stored[name] for name in order}, ensure_ascii=False, indent=1)
        STORED.write_text(kept + "\n", encoding="utf-8")
    print(
        f"Not as it should be: {', '.join(wrong)}" if wrong else "Won on raw answers, lost on private ones."
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
