"""`tools/run_tests.py` ends and names whatever tests leave behind, however a run ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for on Linux only")

CAREFUL = "def test_nothing(tmp_path): (tmp_path / 'x').touch()"
CARELESS = """
import os, subprocess, sys, tempfile

LISTEN = '''
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(flush=True)
time.sleep(1000)
'''

def test_leaves_things(tmp_path):
    folder = tempfile.mkdtemp(prefix="forgotten")
    child = subprocess.Popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    print("folder", folder, "process", child.pid, file=sys.__stderr__, flush=True)
    {end}
"""


def run(folder: Path, test: str) -> subprocess.Popen[str]:
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\n")
    short = "import run_tests; run_tests.SECONDS_TO_END = 0.5; run_tests.MEMORY_NEEDED = 1 << 62"
    path = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})"
    code = f"{path}; {short}; sys.exit(run_tests.main(sys.argv[1:]))"
    told = ["-q", "-s", "-p", "no:cacheprovider", "test_it.py"]
    environment = os.environ | {"TMPDIR": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *told], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )


def read_leftovers(said: str) -> tuple[Path, int]:
    found = re.search(r"folder (\S+) process (\d+)", said)
    assert found, said
    return Path(found[1]), int(found[2])


def is_alive(process: int) -> bool:
    return (Path("/proc") / str(process)).exists()


def list_runs(folder: Path) -> list[str]:
    return [each.name for each in folder.glob("sfumato-tests-*")]


def test_a_careful_run_passes(tmp_path: Path) -> None:
    process = run(tmp_path, CAREFUL)
    _, said = process.communicate()
    assert (process.returncode, said, list_runs(tmp_path)) == (0, "", [])


@pytest.mark.parametrize(
    ("end", "status"), [("pass", 1), ("assert False", 1), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)]
)
def test_what_is_left_is_named_and_ended(tmp_path: Path, end: str, status: int) -> None:
    process = run(tmp_path, CARELESS.replace("{end}", end))
    _, said = process.communicate()
    folder, left = read_leftovers(said)
    assert process.returncode == status
    assert re.search(rf"LEFT BEHIND: process {left}, listening on \d+: .*python", said)
    assert f"LEFT BEHIND: folder or file {folder.name}" in said
    assert not is_alive(left)
    assert list_runs(tmp_path) == []


def test_a_run_that_was_killed_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    killed = run(tmp_path, CARELESS.replace("{end}", "__import__('time').sleep(1000)"))
    assert killed.stderr is not None
    folder, left = read_leftovers(killed.stderr.readline())
    killed.kill()
    killed.wait()
    killed.stderr.close()
    assert is_alive(left)
    assert len(list_runs(tmp_path)) == 1
    assert run(tmp_path, CAREFUL).communicate() == (None, "")
    assert not folder.exists()
    assert list_runs(tmp_path) == []
    while is_alive(left):  # until whoever inherited the process has reaped it
        time.sleep(0.01)
