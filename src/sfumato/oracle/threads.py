"""One thread for work that is done before several have met: short products, k-means on a small summary."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """While it is entered, linear algebra keeps to the thread that asks."""
    return _controller().limit(limits=1)


@cache
def _controller() -> ThreadpoolController:
    """Looking for libraries with threads takes as long as clustering a summary: once is enough."""
    return ThreadpoolController()
