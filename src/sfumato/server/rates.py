"""How often one person, or one address, may ask: buckets of tokens that fill again with time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.server.settings import ServerSettings

Answer = TypeVar("Answer")

_MOST_BUCKETS = 10_000
"""Buckets that are kept; those that are full again are dropped first."""


class RequestRates:
    """Counts requests of people, and wrong tokens of addresses. Each server process counts for itself."""

    def __init__(self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests = _Buckets(settings.requests_per_second, settings.request_burst, clock)
        self._wrong = _Buckets(settings.wrong_tokens_per_second, settings.wrong_token_burst, clock)

    def count_request(self, whose: str, many: int = 1) -> None:
        """Count a request of a person or an address, or one that is as much work as many, or refuse it."""
        self._requests.take(whose, many)

    def count_wrong_token(self, address: str) -> None:
        """Count a wrong token or password that an address sent, or refuse it before it is looked at."""
        self._wrong.take(address)

    def require_patience(self, address: str) -> None:
        """Refuse an address that has sent too many wrong tokens."""
        self._wrong.require(address)


class QuestionTurns:
    """Threads for questions, which wait for their slots, so that quotes and pages never wait for them.

    One person takes half of them at most, so that nobody keeps all others from asking.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asking: Counter[str] = Counter()
        self._limiter: CapacityLimiter | None = None

    async def run(self, function: Callable[..., Answer], *arguments: Any, whose: str) -> Answer:
        """Return what a function returns that asks a person's question; refuse it if too many wait."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._most)
        waiting = self._limiter.statistics().tasks_waiting
        if waiting >= self._most or self._asking[whose] >= max(1, self._most // 2):
            raise PolicyError(
                "SF-W108", "Too many questions wait for their turn; nothing was charged.", try_="again later"
            )
        self._asking[whose] += 1
        try:
            # A lost connection ends nothing: what was charged is answered and kept.
            return await to_thread.run_sync(partial(function, *arguments), limiter=self._limiter)
        finally:
            self._asking[whose] -= 1
            self._asking += Counter()  # forgets those who ask nothing


class _Buckets:
    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, whose: str, many: int = 1) -> None:
        with self._lock:
            level = self._level(whose)
            if level >= many:
                self._levels[whose] = (level - many, self._clock())
        self._refuse(level, many)

    def require(self, whose: str) -> None:
        with self._lock:
            level = self._level(whose)
        self._refuse(level)

    def _level(self, whose: str) -> float:
        now = self._clock()
        if len(self._levels) > _MOST_BUCKETS:
            self._levels = {
                name: (level, then)
                for name, (level, then) in self._levels.items()
                if level + (now - then) * self._rate < self._burst
            }
        level, then = self._levels.get(whose, (self._burst, now))
        return min(self._burst, level + (now - then) * self._rate)

    def _refuse(self, level: float, many: int = 1) -> None:
        if level < many:
            seconds = max(1, round((many - level) / self._rate + 0.5))
            raise PolicyError("SF-W108", "Too many requests came at once.", try_=f"again in {seconds} s")
