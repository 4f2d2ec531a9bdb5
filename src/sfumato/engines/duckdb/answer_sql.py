"""SQL over released numbers: DuckDB in a process that has these numbers and nothing else.

The process has little memory and time, no files, no network and no extensions. Whatever a text does there, it
does to the numbers that its author was given.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

SECONDS = 10.0
"""How long one SELECT may take."""
MOST_BYTES = 2**28
"""Memory that DuckDB may take; the process may take eight times as much, with its libraries."""
MOST_ROWS = 2_000_000
_START_SECONDS = 60.0
_WORKER = Path(__file__).with_name("answer_worker.py")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a SELECT was not run to its end."""

    kind: str
    reason: str


def run_over_answer(texts: Sequence[str], tables: Sequence[pa.Table]) -> list[pa.Table | Refusal]:
    """Return what each SELECT gives over the tables `answer` and `draws`, or why it gives nothing."""
    import pyarrow as pa

    sent = io.BytesIO()
    header = {"tables": len(tables), "texts": list(texts), "bytes": MOST_BYTES, "seconds": SECONDS}
    sent.write(json.dumps({**header, "rows": MOST_ROWS}).encode() + b"\n")
    for table in tables:
        with pa.ipc.new_stream(sent, table.schema) as stream:
            stream.write_table(table)
    # -I: no folder or variable of the user's has a say in what is imported.
    command = [sys.executable, "-I", str(_WORKER)]
    try:
        done = subprocess.run(  # noqa: S603  a program of ours
            command,
            input=sent.getvalue(),
            capture_output=True,
            check=False,
            env={},
            cwd="/",
            timeout=_START_SECONDS + SECONDS * len(texts),
        )
        replies = io.BytesIO(done.stdout)
    except subprocess.TimeoutExpired as late:
        replies = io.BytesIO(late.stdout or b"")
    return [_read_reply(replies) for _ in texts]


def _read_reply(replies: io.BytesIO) -> pa.Table | Refusal:
    import pyarrow as pa

    try:
        said: dict[str, Any] = json.loads(replies.readline())
        if said.get("answered"):
            return pa.ipc.open_stream(replies).read_all()
        return Refusal(said["kind"], said["error"])
    except (ValueError, pa.ArrowException):
        return Refusal("Ended", "")  # the process was ended


def refuse_over_answer(refusal: Refusal) -> UsageError:
    """Return the error that says why SQL over an answer gives nothing."""
    if refusal.kind == "RefusedError":
        return UsageError(
            "SF-Q162",
            "SQL over an answer is one SELECT, of a result that is not too large.",
            most=f"{MOST_ROWS:,} rows",
            try_='r.sql("SELECT * FROM answer")',
        )
    if refusal.kind in ("Ended", "InterruptException", "OutOfMemoryException", "MemoryError"):
        return UsageError(
            "SF-Q162",
            "This took too long, or needed too much memory.",
            why=f"SQL over an answer has {format_number(SECONDS, 6)} s and {MOST_BYTES // 2**20} MiB",
            try_="r.to_arrow(), and your own tool",
        )
    reason = " ".join(refusal.reason.split("\n\n")[0].split())
    return UsageError(
        "SF-Q162",
        "DuckDB does not run this over the answer.",
        why=reason[:300],
        try_='r.sql("SELECT * FROM answer")',
    )
