"""Where snapshots are kept: in the lab's folder as Parquet, or as tables in a schema that the steward names.

A snapshot is a few relations, by name, and a description in JSON without which it is not there. What is only
needed while it is made has a name that begins with `made_`.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from sfumato.engines.spark.connection import is_remote_session
from sfumato.errors import UsageError
from sfumato.files.durable import rename_path, sync_path

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETTING = "spark.sfumato.snapshots"
"""The catalog and schema for snapshots, where Spark cannot reach the lab's folder."""
RELATIONS = ("rows", "units")
MADE = ("made_source", "made_people")
_DESCRIPTION = "description"
_COLUMNS = ".columns"


class SnapshotPlace(Protocol):
    """Where the relations of snapshots lie."""

    def begin(self, session: SparkSession, snapshot: str) -> None:
        """Make room: nothing of this name is there afterwards."""

    def write(self, snapshot: str, name: str, rows: DataFrame) -> None:
        """Keep rows under a name."""

    def read(self, session: SparkSession, snapshot: str, name: str) -> str:
        """Return what to select from for what was written; while it is made, and afterwards."""

    def finish(self, session: SparkSession, snapshot: str, description: dict[str, Any]) -> None:
        """Make the snapshot durable, and forget what it was made of."""

    def description(self, session: SparkSession, snapshot: str) -> dict[str, Any]:
        """Return what the snapshot was finished with."""

    def erase(self, session: SparkSession | None, snapshot: str) -> None:
        """Remove a snapshot and what may be left of making it; one that is not there is no error."""


def hash_name(snapshot: str) -> str:
    """Return a digest, which is a valid name everywhere; snapshots may have any name."""
    return f"s{sha256(snapshot.encode()).hexdigest()[:32]}"


def unreachable_folder() -> UsageError:
    """Return the refusal of a Spark that runs elsewhere and was not told where to keep snapshots."""
    return UsageError(
        "SF-C211",
        "This Spark cannot reach the lab's folder: it runs on other machines.",
        needed="a schema for the snapshots, in a catalog that Spark knows",
        try_=f'spark.conf.set("{SETTING}", "catalog.schema")',
    )


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder for each snapshot, which takes its name when it is whole."""

    path: Path

    def begin(self, session: SparkSession, snapshot: str) -> None:
        # mkdir's mode passes through the umask, and the folder may be there already.
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._require_same_disk(session)
        self.erase(None, snapshot)
        self._making(snapshot).mkdir(mode=0o700)

    def write(self, snapshot: str, name: str, rows: DataFrame) -> None:
        """Write columns' types beside the rows, so that no file is opened to learn them."""
        folder = self._making(snapshot) / name
        rows.write.parquet(f"file://{folder}")
        folder.with_suffix(_COLUMNS).write_text(rows.schema.json(), encoding="utf-8")

    def read(self, session: SparkSession, snapshot: str, name: str) -> str:
        """Return the name of a view in our own session."""
        from pyspark.sql.types import StructType

        making = self._making(snapshot)
        folder = (making if making.exists() else self._whole(snapshot)) / name
        columns = StructType.fromJson(json.loads(folder.with_suffix(_COLUMNS).read_text(encoding="utf-8")))
        view = f"{hash_name(str(folder))}_{name}"
        session.read.schema(columns).parquet(_one(folder)).createOrReplaceTempView(view)
        return view

    def finish(self, session: SparkSession, snapshot: str, description: dict[str, Any]) -> None:
        making = self._making(snapshot)
        for name in MADE:
            shutil.rmtree(making / name, ignore_errors=True)
            (making / name).with_suffix(_COLUMNS).unlink(missing_ok=True)
        (making / _DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        # Spark syncs none of its files; the rename must not survive a crash that they do not.
        for path in [*making.rglob("*"), making]:
            sync_path(path)
        rename_path(making, self._whole(snapshot))

    def description(self, session: SparkSession, snapshot: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._whole(snapshot) / _DESCRIPTION).read_text(encoding="utf-8"))
        return found

    def erase(self, session: SparkSession | None, snapshot: str) -> None:
        for path in (self._making(snapshot), self._whole(snapshot)):
            if path.exists():
                shutil.rmtree(path)
                sync_path(self.path)

    def _require_same_disk(self, session: SparkSession) -> None:
        """Have a server of Spark Connect read a word back, before it is given any row to write.

        Its master may be local and still be another machine, whose disk would keep the rows.
        """
        if not is_remote_session(session):
            return
        from pyspark.errors import PySparkException

        word, probe = secrets.token_hex(16), self.path / f"{secrets.token_hex(8)}.probe"
        probe.write_text(word, encoding="utf-8")
        try:
            found = session.read.text(_one(probe)).toArrow()["value"].to_pylist()
        except PySparkException:
            found = []
        finally:
            probe.unlink()
        if found != [word]:
            raise unreachable_folder()

    def _whole(self, snapshot: str) -> Path:
        return self.path / f"{quote(snapshot, safe='')}.spark"

    def _making(self, snapshot: str) -> Path:
        return self.path / f"{quote(snapshot, safe='')}.making"


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables in one schema of a catalog that the cluster knows."""

    schema: str

    def begin(self, session: SparkSession, snapshot: str) -> None:
        self.erase(session, snapshot)

    def write(self, snapshot: str, name: str, rows: DataFrame) -> None:
        rows.writeTo(self._table(snapshot, name)).create()

    def read(self, session: SparkSession, snapshot: str, name: str) -> str:
        return self._table(snapshot, name)

    def finish(self, session: SparkSession, snapshot: str, description: dict[str, Any]) -> None:
        """Write the description last: without it there is no snapshot."""
        self._drop(session, snapshot, MADE)
        # As digits: names of columns may hold quotes.
        digits = json.dumps(description).encode().hex()
        said = session.sql(f"SELECT CAST(X'{digits}' AS STRING) AS said")
        self.write(snapshot, _DESCRIPTION, said)

    def description(self, session: SparkSession, snapshot: str) -> dict[str, Any]:
        said = session.table(self._table(snapshot, _DESCRIPTION)).toArrow()["said"][0].as_py()
        found: dict[str, Any] = json.loads(said)
        return found

    def erase(self, session: SparkSession | None, snapshot: str) -> None:
        if session is not None:
            self._drop(session, snapshot, (_DESCRIPTION, *RELATIONS, *MADE))

    def _drop(self, session: SparkSession, snapshot: str, names: tuple[str, ...]) -> None:
        for name in names:
            session.sql(f"DROP TABLE IF EXISTS {self._table(snapshot, name)}")

    def _table(self, snapshot: str, name: str) -> str:
        return f"{self.schema}.{hash_name(snapshot)}_{name}"


def _one(folder: Path) -> str:
    """Return the address of this folder alone, escaped: Spark reads addresses as patterns."""
    return "file://" + re.sub(r"([\\*?{}\[\]])", r"\\\1", str(folder))
