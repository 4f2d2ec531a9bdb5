"""The command `sfumato serve-sql`, as a person runs it: its line, its door, Ctrl-C, and what it refuses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from click.testing import CliRunner

from feed_clinic import make_clinic
from sfumato.cli.main import main
from sfumato.server.people import PeopleStore
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = "from sfumato.cli.main import main; main()"


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A clinic in which ada has released an answer, and her token."""
    folder = tmp_path_factory.mktemp("served") / "clinic"
    make_clinic(folder).close()
    people = PeopleStore(folder / "people.sqlite")
    people.add_person("ada", "analyst")
    made = people.make_token("ada")
    people.close()
    return folder, made


@contextmanager
def serve(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command, and yield its process and the line that it prints once the door is open."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, "serve-sql", str(folder), "--port", "0", *more]
    paths = os.pathsep.join(each for each in sys.path if each)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_what_it_prints_opens_the_door_and_ctrl_c_ends_it(token: tuple[Path, str]) -> None:
    folder, password = token
    with serve(folder) as (process, line):
        found = re.match(r'psql "host=127\.0\.0\.1 port=(\d+) user=NAME dbname=sfumato"', line)
        assert found is not None, line
        address = f"host=127.0.0.1 port={found[1]} user=ada dbname=sfumato password={password}"
        with psycopg.connect(address, autocommit=True) as connection:
            assert connection.execute("SELECT n FROM published.by_ward").rowcount == 4
        with pytest.raises(psycopg.OperationalError, match="SF-W101"):
            psycopg.connect(address.replace(password, "sfu_wrong"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--host", "0.0.0.0"], "SF-F140"),
        (["--tls-cert", "missing.pem"], "SF-F141"),
    ],
)
def test_what_would_not_be_safe_is_refused(token: tuple[Path, str], options: list[str], code: str) -> None:
    refused = CliRunner().invoke(main, ["serve-sql", str(token[0]), "--port", "0", *options])
    assert refused.exit_code != 0
    assert code in refused.output
