"""A small local Spark for benchmarks: two cores, nothing shown, nothing left in the working folder."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch", "sun.security.action")


def session(memory: str = "6g") -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(
            f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED
        ),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    return spark


def java_seconds(spark: Any) -> float:
    """Of processor, on all threads of Java, since it began."""
    fields = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
