"""Install sfumato and some of its extras with pip, and print what happens while pip works.

    .venv/bin/python tools/install.py --extras learn,server --packages 50 --usually "30–60 s"

pip is quiet for minutes, or prints several lines for each package. This prints at most one line every few
seconds, keeps everything that pip says in install.log next to the environment's interpreter, and names the
missing system package when an installation fails for a known reason. pip's own settings apply.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parent.parent
EVERY = 4.0
"""Most seconds between two lines of progress."""
TAIL = 25
"""Lines of pip's output that are shown when it fails."""
BUILD_TOOLS = ["hatchling", "editables", "setuptools"]
"""They come first and are pinned too, because an isolated build would fetch the newest. Setuptools builds
pyspark, which is published as source only; new environments bring an old setuptools or none."""

_NO_COMPILER = (
    r"(?:gcc|cc|clang|c\+\+|g\+\+)'? (?:failed: No such file|not found)"
    r"|unable to execute '[\w-]*(?:gcc|cc|clang)|: (?:gcc|cc|g\+\+): not found"
    r"|No such file or directory: '[\w-]*(?:gcc|cc|clang|g\+\+)'"
)
CAUSES = (
    (r"pg_config", "PostgreSQL's headers are missing. On Debian and Ubuntu: apt install libpq-dev"),
    (r"Python\.h", "Python's headers are missing. On Debian and Ubuntu: apt install python3-dev"),
    (
        _NO_COMPILER,
        "A C compiler is missing. On Debian and Ubuntu: apt install gcc python3-dev",
    ),
    (r"No space left on device", "The disk is full."),
    (r"CERTIFICATE_VERIFY_FAILED", "pip does not trust the index's certificate. Install ca-certificates."),
    (r"No module named pip", "The environment has no pip. On Debian and Ubuntu: apt install python3-venv"),
    (
        r"name resolution|NewConnectionError|Network is unreachable|Max retries exceeded",
        "pip cannot reach its package index. Check the network, or `pip config get global.index-url`.",
    ),
    (
        r"No matching distribution",
        "The package index has no such version for this Python. sfumato needs Python 3.11 or newer.",
    ),
)
"""What pip prints when something is missing on the machine, and what to do."""


class Progress:
    """Lines of progress: what pip did since the last line, or that it is still at work."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._done: list[str] = []
        self._state = "starting pip"

    def hear(self, line: str) -> None:
        """Take a line of pip's output."""
        words = line.split()
        if words[:1] == ["Collecting"]:
            self._done.append(re.split(r"[\[<>=!~; (]", words[1])[0])
            self._state = "collecting packages"
        elif words[:1] == ["Building"] or "build dependencies" in line:
            self._state = "building a package"
        elif line.startswith("Installing collected packages"):
            self._done.clear()
            self._state = f"installing {line.count(',') + 1} packages"
        elif words[:1] == ["ERROR:"]:
            self._state = "pip reports an error"

    def tell(self) -> None:
        """Print a line if the last one is some seconds ago."""
        now = time.monotonic()
        if now - self._said < EVERY:
            return
        names = ", ".join(self._done[:4]) + (
            f" and {len(self._done) - 4} more" if len(self._done) > 4 else ""
        )
        print(f"{now - self._began:5.0f} s  {f'collected {names}' if names else self._state}", flush=True)
        self._said = now
        self._done.clear()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began


def main() -> int:
    """Install, and return pip's exit code."""
    options = _read_options()
    folder = Path(sys.prefix)
    packages = f"sfumato and about {options.packages} packages"
    print(f"Installing {packages} into {_shorten(folder)}; usually {options.usually}", flush=True)
    progress = Progress()
    log = folder / "install.log"
    steps = (BUILD_TOOLS, ["--no-build-isolation", "-e", f"{ROOT}[{options.extras}]"])
    with log.open("w", encoding="utf-8") as kept:
        for arguments in steps:
            code = _run_pip([*options.pip, *arguments], progress, kept)
            if code:
                break
    if code == 0:
        print(f"Installed in {progress.seconds:.0f} s", flush=True)
    else:
        _explain(log)
    return code


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--extras", required=True, help="extras of sfumato, separated by commas")
    parser.add_argument("--packages", required=True, help="about how many packages that are")
    parser.add_argument("--usually", required=True, help="how long it usually takes")
    parser.add_argument("--pip", nargs="*", default=[], help="more options of pip, without their dashes")
    found = parser.parse_args()
    found.pip = [f"--{each}" for each in found.pip]
    return found


def _run_pip(arguments: list[str], progress: Progress, log: TextIO) -> int:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--progress-bar", "off", "--prefer-binary", "-c", str(ROOT / "constraints.txt"), *arguments]
    print(*command, file=log, flush=True)
    pip = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read_lines, args=(pip.stdout, lines), daemon=True)
    reader.start()
    try:
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                line = ""
            if line is None:
                return pip.wait()
            if line:
                log.write(line)
                progress.hear(line)
            progress.tell()
    except BaseException:
        pip.terminate()
        pip.wait()
        raise


def _read_lines(stream: TextIO, lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _explain(log: Path) -> None:
    """Print the end of pip's output and, where it is known, what to do."""
    said = log.read_text(encoding="utf-8")
    print(*said.splitlines()[-TAIL:], sep="\n", file=sys.stderr)
    print(f"\npip failed. All of its output is in {_shorten(log)}.", file=sys.stderr)
    advice = find_cause(said)
    if advice:
        print(advice, file=sys.stderr)


def find_cause(said: str) -> str:
    """Return what to do about a failure, or nothing if pip's output shows no known cause."""
    return next((advice for pattern, advice in CAUSES if re.search(pattern, said)), "")


def _shorten(path: Path) -> str:
    """Return a path from here, if it lies below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
