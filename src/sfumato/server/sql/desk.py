"""The desk at which released tables are asked: a process of its own, with nothing else in it.

It is started for a connection when it is first needed, has little memory, and is killed if it takes too long.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.queries.tool_sqlite import not_supported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 10.0
"""How long one SELECT may take, and how long the process has to start."""
_WORKER = Path(__file__).with_name("desk_worker.py")
_BLOCK = 2**20


class AnswerDesk:
    """A process that holds released tables and answers SELECTs about them."""

    def __init__(self, load: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        # -I and -S: no folder or variable of the user's has a say in what is imported.
        self._process = subprocess.Popen(  # noqa: S603  a program of ours
            [sys.executable, "-I", "-S", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            close_fds=True,
        )
        self._rest = b""
        self._turn = Lock()
        self._send({"load": load, "settings": dict(settings)})

    def run_select(self, sql: str, values: Sequence[Any]) -> list[list[Any]]:
        """Return the rows of a SELECT that was written for the desk."""
        with self._turn:
            reply = self._send({"sql": sql, "values": list(values)})
        if "error" in reply:
            raise not_supported(reply["error"])
        rows: list[list[Any]] = reply["rows"]
        return rows

    @property
    def is_open(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def cancel(self) -> None:
        """End the process in the middle of a SELECT, from another thread than the one that waits for it."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and let go of it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent yet cannot be sent any more
                    pipe.close()

    def _send(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101  as it was started
        try:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._read_line())
        except (OSError, ValueError, TimeoutError):
            self.close()
            raise PolicyError(
                "SF-F136",
                "This took too long, needed too much memory, or was cancelled.",
                why=f"a SELECT about released tables has {SECONDS:g} s and little memory",
                try_="a simpler SELECT, and the rest in your own tool",
            ) from None
        return reply

    def _read_line(self) -> bytes:
        """Return the next line, or raise when the time is over or the process is gone."""
        assert self._process.stdout is not None  # noqa: S101  as it was started
        end, pipe, parts = time.monotonic() + SECONDS, self._process.stdout.fileno(), [self._rest]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            block = os.read(pipe, _BLOCK) if ready else b""
            if not block:
                raise TimeoutError
            parts.append(block)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line
