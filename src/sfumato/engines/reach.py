"""What it means that an engine is out of reach: nothing was sent to it that reads a row."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def reach_engine(engine: str, why: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors into one that says that nothing was read; only what opens and describes goes in here.

    Its words are the same for whatever stood in the way, because analysts see them.
    """
    try:
        yield
    except errors:
        raise EngineError(
            "SF-C221",
            "The rows of this table cannot be reached now, so nothing was read.",
            engine=engine,
            why=why,
            try_="the same question later; the steward can start the engine, or lab.advance(…)",
        ) from None
