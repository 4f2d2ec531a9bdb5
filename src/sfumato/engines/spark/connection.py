"""How Spark is spoken to: in a session of our own beside the steward's, with settings of ours.

It has the steward's cluster, catalogs and rights, and none of their settings and views, so that these change
neither the meaning of our SQL nor its text.
"""

from __future__ import annotations

import warnings
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.engines.spark.java import require_java
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "parquet",
}
_turn = Lock()
_sessions: dict[str, SparkSession] = {}


def steward_session() -> SparkSession:
    """The one that is there, or a new one as Spark's own settings say."""
    builder = _library().builder
    _quiet(require_java)
    session: SparkSession = _quiet(builder.getOrCreate)
    return session


def own_session(base: SparkSession) -> SparkSession:
    """One for each application of Spark, kept while it runs."""
    key = _application(base)
    with _turn:
        if key not in _sessions:
            _sessions.clear()  # of applications that have ended; a process has one at a time
            _sessions[key] = _quiet(base.newSession)
            for name, value in _OURS.items():
                _sessions[key].conf.set(name, value)
        return _sessions[key]


def setting(session: SparkSession, name: str) -> str | None:
    """One that the steward made, if it was made."""
    found: Any = session.conf.get(name, None)
    return found or None


def _application(base: SparkSession) -> str:
    remote = getattr(base, "session_id", None)  # only a session of Spark Connect has one
    return str(remote or base.sparkContext.applicationId)


def _library() -> Any:
    try:
        return _quiet(_imported)
    except ImportError:
        raise UsageError(
            "SF-C214",
            "A source in Spark needs the library pyspark.",
            try_="pip install 'sfumato[spark]'",
        ) from None


def _imported() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession


def _quiet(work: Any) -> Any:
    """Spark warns of pandas being newer than it knows, which nothing here uses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()
