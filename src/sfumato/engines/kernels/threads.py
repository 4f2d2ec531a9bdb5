"""Keeping linear algebra to one thread where the work is done before several threads have met.

It is a matter of speed alone: short products and k-means on a small summary take longer with several threads.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def use_one_thread() -> AbstractContextManager[Any]:
    """Return a context in which linear algebra keeps to the thread that calls it."""
    controller = _controller()
    limited: AbstractContextManager[Any] = nullcontext() if controller is None else controller.limit(limits=1)
    return limited


@cache
def _controller() -> Any:
    """Look for libraries with threads once: that takes as long as clustering a summary.

    threadpoolctl comes with scikit-learn. Without it, sums are the same and may take longer.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
