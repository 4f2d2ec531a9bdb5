"""What operators see: whether the server is well, how many requests it answered, and a log without data.

Log lines have the route and never the path, the question, a value or a token.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Scope

LOG = logging.getLogger("sfumato.server")
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histogram of durations, in seconds."""


class RequestCounters:
    """Requests by route and status, and how long they took.

    Server processes that share a port share a folder: each writes its own file there, and whoever is asked
    adds all of them up.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._folder = folder
        self._file: Any = None

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request that was answered."""
        name = f'{{method="{method}",route="{route}"'
        keys = [f'sfumato_requests_total{name},status="{status}"}}', f"sfumato_request_seconds_count{name}}}"]
        for bound in (*(each for each in BOUNDS if seconds <= each), "+Inf"):
            keys.append(f'sfumato_request_seconds_bucket{name},le="{bound}"}}')
        with self._lock:
            self._counts.update(keys)
            self._counts[f"sfumato_request_seconds_sum{name}}}"] += seconds  # type: ignore[assignment]
            self._share()

    def write_text(self) -> str:
        """Return the counts of all processes, as Prometheus reads them."""
        with self._lock:
            total = Counter(self._counts) if self._folder is None else self._add_up(self._folder)
        lines = ["# TYPE sfumato_requests_total counter", "# TYPE sfumato_request_seconds histogram"]
        return "\n".join([*lines, *(f"{name} {total[name]}" for name in sorted(total))]) + "\n"

    def _share(self) -> None:
        if self._folder is None:
            return
        if self._file is None:
            path = self._folder / f"{os.getpid()}.json"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        # One write, padded to a length that only grows: a reader sees the old counts or the new ones.
        body = json.dumps(self._counts).encode()
        os.pwrite(self._file, body.ljust(-(-len(body) // 65_536) * 65_536), 0)

    def _add_up(self, folder: Path) -> Counter[str]:
        total: Counter[str] = Counter()
        for file in folder.glob("*.json"):
            try:
                total.update(json.loads(file.read_bytes()))
            except (OSError, ValueError):
                continue  # a process that begins just now
        return total

    def close(self) -> None:
        """Close the shared file; what was counted stays there for the others."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def log_request(counters: RequestCounters, scope: Scope, status: int, seconds: float) -> None:
    """Count a request and write one line about it: when, who, which route, which status, how long."""
    route = getattr(scope.get("route"), "path", "none")
    method = scope["method"] if scope["method"] in _METHODS else "OTHER"
    counters.count_request(method, route, status, seconds)
    visitor = scope.get("state", {}).get("visitor")
    line = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "method": method,
        "route": route,
        "status": status,
        "milliseconds": round(1000 * seconds, 1),
        "role": "public" if visitor is None else visitor.role.value,
        "name": "" if visitor is None else visitor.name,
    }
    LOG.info("%s", json.dumps(line, ensure_ascii=False))


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
