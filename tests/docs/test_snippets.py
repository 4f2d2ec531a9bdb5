"""Every Python snippet of the README and the docs runs as a reader would run it.

The snippets of a page share one fresh interpreter in an empty folder, and commands in a fence that opens with
`sh run` run there too. A fence that opens with `python no-run` is left out; so are other languages.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.M | re.S)


def script(page: str) -> str:
    """The runnable snippets of a page, each on the lines where the page has it, so that tracebacks fit."""
    lines = [""] * (page.count("\n") + 1)
    for fence in FENCE.finditer(page):
        if fence["info"].split() == ["python"]:
            first = page.count("\n", 0, fence.start("body"))
            snippet = textwrap.dedent(fence["body"]).splitlines()
            lines[first : first + len(snippet)] = snippet
        elif fence["info"].split() == ["sh", "run"]:
            commands = "set -e\n" + textwrap.dedent(fence["body"])
            run_them = f"__import__('subprocess').run({commands!r}, shell=True, check=True)"
            lines[page.count("\n", 0, fence.start("body"))] = run_them
    return "\n".join(lines)


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "snippets.py"
    file.write_text(code, encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    # A warning that a page shows on purpose is none that its reader should not see.
    command = [sys.executable, "-W", "error", "-W", "default:The declaration of", str(file)]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs}
    return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    code = script(page.read_text(encoding="utf-8"))
    if code.strip():
        done = run(code, tmp_path)
        assert done.returncode == 0, f"lines are those of {page.name}\n{done.stderr}"


EXAMPLE = """# Title
```python
x = 1
```
```sh
exit 1
```
```sh run
test -d . && true
```
```python no-run
raise SystemExit(1)
```
- a list
  ```python
  if x:
      x += 1
  ```
"""


def test_only_python_fences_run_and_on_their_own_lines() -> None:
    lines = script(EXAMPLE).splitlines()
    assert [(number, line) for number, line in enumerate(lines, 1) if line] == [
        (3, "x = 1"),
        (9, "__import__('subprocess').run('set -e\\ntest -d . && true\\n', shell=True, check=True)"),
        (16, "if x:"),
        (17, "    x += 1"),
    ]


def test_snippets_share_names_and_failures_are_seen(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    assert run(script(EXAMPLE + "```python\nassert x == 2\n```\n"), good).returncode == 0
    failed = run(script(EXAMPLE + "```python\nassert x == 3\n```\n"), bad)
    assert failed.returncode == 1
    assert "line 20" in failed.stderr
