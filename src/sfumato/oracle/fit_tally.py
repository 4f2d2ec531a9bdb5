"""How often an estimator and its clones were fitted on own arrays, within one process."""

from __future__ import annotations

import os
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.privacy.events import Event


class FitTally:
    """Counts how often an estimator and its clones were fitted, and for how much.

    A copy is the same count.
    """

    def __init__(self, travelled: bool = False) -> None:
        """Begin at zero; one that `travelled` through pickle cannot know how often others were fitted."""
        self._travelled, self._process = travelled, os.getpid()
        self._lock = Lock()
        self._fits: Counter[tuple[Event, ...]] = Counter()

    @property
    def travelled(self) -> bool:
        """Whether it came from another process, by pickle or by a fork."""
        return self._travelled or self._process != os.getpid()

    def add(self, events: tuple[Event, ...]) -> Counter[tuple[Event, ...]]:
        """Count one more fit, and return how often each price was paid so far."""
        with self._lock:
            self._fits[events] += 1
            return self._fits.copy()

    def __copy__(self) -> FitTally:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FitTally:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FitTally, (True,)


def unaccounted_copy() -> PolicyError:
    """Return the error for an estimator out of a pickle, which cannot know how often others were fitted."""
    return PolicyError(
        "SF-L303",
        "This estimator went through pickle, and no account pays for fitting it.",
        why="a search in several processes would fit many times for the price of one",
        try_='budget=sf.learn.Account("fits.ledger", epsilon=4, delta=1e-6), or n_jobs=1',
    )
