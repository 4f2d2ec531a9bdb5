"""How Spark is spoken to: in a session of our own beside the steward's, with settings of ours.

It has the steward's cluster, catalogs and rights, and none of their settings and views, so that these change
neither the meaning of our SQL nor its text.
"""

from __future__ import annotations

import atexit
import os
import secrets
import warnings
from contextlib import contextmanager
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from sfumato.engines.spark.java import require_java
from sfumato.engines.watch import watch_run
from sfumato.errors import UsageError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_OURS = {
    # Overflow raises instead of wrapping around.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.codegen.hugeMethodLimit": "8000",  # Java never compiles longer ones; Spark then splits them
    # dialect.py relies on how many digits a quotient keeps.
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "parquet",
}
_INTERRUPTS = "spark.job.interruptOnCancel"
_turn = Lock()
_sessions: dict[str, SparkSession] = {}


def find_steward_session() -> SparkSession:
    """Return the session that is there, or start one as Spark's own settings say."""
    builder = _library().builder
    if "SPARK_REMOTE" not in os.environ and not _is_connected() and not _is_running():
        require_java()
    try:
        session: SparkSession = _quiet((_connected_builder() if _is_connected() else builder).getOrCreate)
    except Exception:
        # Spark's own words name hosts and files.
        raise UsageError(
            "SF-C209",
            "Spark does not start.",
            why="its Java, its settings or its server are not as it needs them",
            try_="pyspark.sql.SparkSession.builder.getOrCreate(), which shows what Spark says",
        ) from None
    return session


def _is_running() -> bool:
    """Return whether this process has started Spark, on whatever Java."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _is_connected() -> bool:
    """Return whether this process has sessions of Spark Connect, whose Java is the server's."""
    from pyspark.sql import is_remote

    return bool(is_remote())


def _connected_builder() -> Any:
    """Return the builder that knows the session; the other one would ask for an address again."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder


def open_own_session(base: SparkSession) -> SparkSession:
    """Return our own session, one for each application of Spark, kept while it runs."""
    key = _application(base)
    with _turn:
        if key not in _sessions:
            _sessions.clear()  # of applications that have ended; a process has one at a time
            _sessions[key] = _quiet(base.newSession)
            for name, value in _OURS.items():
                _sessions[key].conf.set(name, value)
        return _sessions[key]


@atexit.register
def _close() -> None:
    """Close before threads end: later, a session of Spark Connect waits for one of them for ever."""
    for session in filter(is_remote_session, _sessions.values()):
        session.client.close()


@contextmanager
def limit_run(session: SparkSession, folder: Path | None, snapshots: Collection[str]) -> Iterator[None]:
    """End what this thread asks inside, with an error of Spark's, as `watch_run` says."""
    tag = f"sfumato-{secrets.token_hex(8)}"
    with _marked(session, tag) as end:
        # In a thread of its own: a server that does not answer must not keep others from being ended.
        ending = partial(Thread, target=end, args=(tag,), daemon=True)
        with watch_run(lambda: ending().start(), folder, snapshots):
            yield


@contextmanager
def _marked(session: SparkSession, tag: str) -> Iterator[Callable[[str], object]]:
    """Tag what this thread asks inside; any thread may end all that has the tag.

    Tags of a session can be used by other threads only in Spark Connect, which is also the only one to
    interrupt tasks that do not look up from their work.
    """
    if is_remote_session(session):
        session.addTag(tag)
        try:
            yield session.interruptTag
        finally:
            session.removeTag(tag)
        return
    context = session.sparkContext
    before = context.getLocalProperty(_INTERRUPTS)
    context.addJobTag(tag)
    context.setLocalProperty(_INTERRUPTS, "true")
    try:
        yield context.cancelJobsWithTag
    finally:
        context.removeJobTag(tag)
        context.setLocalProperty(_INTERRUPTS, before)


def read_setting(session: SparkSession, name: str) -> str | None:
    """Return a setting that the steward made, or None."""
    found: Any = session.conf.get(name, None)
    return found or None


def _application(base: SparkSession) -> str:
    return str(base.session_id if is_remote_session(base) else base.sparkContext.applicationId)


def is_remote_session(session: SparkSession) -> bool:
    return hasattr(session, "session_id")  # only a session of Spark Connect has one


def _library() -> Any:
    try:
        return _quiet(_imported)
    except ImportError:
        raise missing_extra("spark", "A source in Spark needs the library pyspark.") from None


def _imported() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession


def _quiet(work: Any) -> Any:
    """Silence a warning that pandas is newer than Spark knows, which nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()
