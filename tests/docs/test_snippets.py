"""Every Python snippet of the README and the docs runs as a reader would run it.

The snippets of a page share one process in an empty folder, which starts with the package imported and an
empty namespace. Commands in a fence that opens with `sh run` run there too. A fence that opens with
`python no-run` is left out; so are other languages.
"""

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest

import warm

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
            first = page.count("\n", 0, fence.start("body"))
            for number, command in enumerate(
                textwrap.dedent(fence["body"]).replace("\\\n", "\\").splitlines()
            ):
                lines[first + number] = in_process(command.replace("\\", " "))
    return "\n".join(lines)


def in_process(command: str) -> str:
    """A command of the shell as a line of Python: starting an interpreter for each would take long."""
    program, *arguments = shlex.split(command)
    assert program == "sfumato", command
    main = "__import__('sfumato.cli.main', fromlist=['main']).main"
    return f"assert not {main}({arguments!r}, standalone_mode=False)"


READY = (
    f"import sys; sys.path.append({str(ROOT / 'tests')!r}); import ready_replies as r; r.reply_when_ready()"
)
"""The first line of pages with hostile sessions: their snippets do not fail where a machine is busy."""

USES_TORCH = re.compile(r"\btorch\b|sf\.deep|sf\.synth\.(Diffusion|MERF)")


def with_patience(code: str) -> str:
    """Return the code of a page, on the same lines, that waits for workers as long as it takes."""
    hostile = "hostile=True" in code or "create_app" in code
    return READY + code if hostile and code.startswith("\n") else code


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "snippets.py"
    file.write_text(code, encoding="utf-8")
    work = folder / "work"
    work.mkdir()
    # Pages show the warning of a declaration that does not fit on purpose.
    filters = ["error", "default:The declaration of"]
    extras = ("torch",) if USES_TORCH.search(code) else ()
    return warm.run([file], cwd=work, filters=filters, extras=extras)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    code = script(page.read_text(encoding="utf-8"))
    if code.strip():
        done = run(with_patience(code), tmp_path)
        assert done.returncode == 0, f"lines are those of {page.name}\n{done.stderr}"


EXAMPLE = """# Title
```python
x = 1
```
```sh
exit 1
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
        (13, "if x:"),
        (14, "    x += 1"),
    ]


def test_commands_run_where_they_stand() -> None:
    lines = script(
        "# Title\n```sh run\nsfumato explain \\\n    --epsilon 1\nsfumato --version\n```\n"
    ).splitlines()
    assert lines[2:5] == [in_process("sfumato explain --epsilon 1"), in_process("sfumato --version"), ""]


def test_snippets_share_names_and_failures_are_seen(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    assert run(script(EXAMPLE + "```python\nassert x == 2\n```\n"), good).returncode == 0
    failed = run(script(EXAMPLE + "```python\nassert x == 3\n```\n"), bad)
    assert failed.returncode == 1
    assert "line 17" in failed.stderr
