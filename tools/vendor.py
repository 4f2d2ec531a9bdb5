"""Copy the JavaScript libraries of the pages out of their npm packages, and write what was copied.

    npm pack htmx.org@4.0.1 vega@6.4.0 vega-lite@6.5.0 vega-interpreter@2.3.2
    python tools/vendor.py FOLDER-OF-THE-PACKAGES

Nothing is built: minified files are taken as they are. vega-interpreter comes as a module that imports three
names from vega-util; they are taken from the `vega` that the page has loaded, so that no bundler is needed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from pathlib import Path

STATIC = Path(__file__).parents[1] / "src/sfumato/server/static"
FILES = {
    "htmx.org-4.0.1": ("dist/htmx.min.js", "htmx.min.js"),
    "vega-6.4.0": ("build/vega.min.js", "vega.min.js"),
    "vega-lite-6.5.0": ("build/vega-lite.min.js", "vega-lite.min.js"),
    "vega-interpreter-2.3.2": ("build/vega-interpreter.js", "vega-interpreter.js"),
}
INTERPRETER = {
    "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';": (
        '(function () {\n"use strict";\nconst { ascending, isString, DisallowedObjectProperties } = vega;'
    ),
    "export { expression as expressionInterpreter };": (
        "globalThis.vegaInterpreter = { expressionInterpreter: expression };\n})();"
    ),
}
HEADING = """# Libraries in `vendor`

Written by `tools/vendor.py`, which says how. The pages load these files from the server itself; nothing is
fetched from another place. htmx is loaded by every page, the other three by pages that have a chart.

| file | package | licence | bytes | SHA-256 |
|---|---|---|---|---|
"""
NOTE = """
`vega-interpreter.js` differs from the package's file in its first and last statement: it takes three names
from the `vega` that is loaded before it, and leaves its own as `vegaInterpreter`. Source maps are not copied,
nor the comments that point to them. The licences follow.
"""


def main(folder: Path) -> None:
    """Copy every file, then write VENDORED.md."""
    lines, licences = [], []
    for package, (inside, name) in FILES.items():
        with tarfile.open(folder / f"{package}.tgz") as archive:
            text = _read(archive, inside)
            licence = json.loads(_read(archive, "package.json"))["license"]
            licences.append(f"\n## {package}\n\n```\n{_read(archive, 'LICENSE').strip()}\n```\n")
        kept = _without_map(_opened(text) if name == "vega-interpreter.js" else text)
        (STATIC / "vendor" / name).write_text(kept, encoding="utf-8")
        data = kept.encode()
        lines.append(
            f"| {name} | {package} | {licence} | {len(data):,} | `{hashlib.sha256(data).hexdigest()}` |\n"
        )
    (STATIC / "VENDORED.md").write_text(HEADING + "".join(lines) + NOTE + "".join(licences), encoding="utf-8")


def _read(archive: tarfile.TarFile, path: str) -> str:
    file = archive.extractfile(f"package/{path}")
    assert file is not None
    return file.read().decode()


def _opened(text: str) -> str:
    for old, new in INTERPRETER.items():
        assert text.count(old) == 1, f"vega-interpreter has changed: {old}"
        text = text.replace(old, new)
    return text


def _without_map(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("//# sourceMappingURL="))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
