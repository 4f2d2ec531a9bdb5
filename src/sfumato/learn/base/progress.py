"""A progress bar for long fits. It counts rounds, whose number is public; rows are never counted."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 1.0
"""Seconds that a fit takes before a bar is shown at all."""
_HIDDEN: ContextVar[bool] = ContextVar("sfumato.progress", default=False)


def show_rounds(rounds: int, name: str) -> Iterator[int]:
    """Yield the numbers of so many rounds, with a bar where someone watches and it takes a while."""
    with _Bar(rounds, name) as bar:
        for done in range(rounds):
            yield done
            bar.show(done + 1)


@contextmanager
def hide_bars() -> Iterator[None]:
    """Show no bars of this thread or task until the block ends: the number of fits in a search is secret."""
    before = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(before)


def report_rounds(name: str, verbose: Any) -> Callable[[], None]:
    """Return what is called when a round was charged; it prints a line where that was asked for.

    Rounds of a search print nothing, because their number is secret.
    """
    rounds = count(1)

    def report() -> None:
        done = next(rounds)
        if verbose and not _HIDDEN.get():
            print(f"{name}: round {done} is charged")  # noqa: T201  asked for by `verbose`

    return report


class _Bar:
    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._began = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def show(self, done: int) -> None:
        """Show that so many rounds are done."""
        if self._bar is None and _shown() and time.monotonic() - self._began > _PATIENCE:
            self._bar = self._begun()
        if self._bar is not None:
            self._bar.update(0, completed=done)

    def _begun(self) -> Any:
        # rich draws with ipywidgets in a notebook, and complains where they are missing.
        if "ipykernel" in sys.modules:
            return _NotebookBar(self._name, self._count)
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._name, total=self._count)
        bar.start()
        return bar

    def __exit__(self, *problem: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class _NotebookBar:
    """One output of a notebook that is replaced, with the calls of rich's bar that are used here.

    A line that is written over would stay in a notebook that is run and exported, once for every round.
    """

    _WIDTH = 30

    def __init__(self, name: str, count: int) -> None:
        from IPython.display import display

        self._name, self._count = name, count
        self._filled = -1
        self._output = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, _: int, completed: int) -> None:
        """Draw the bar anew if it has grown."""
        filled = self._WIDTH * completed // self._count
        if filled != self._filled:
            self._filled = filled
            bar = "█" * filled + "░" * (self._WIDTH - filled)
            self._show(f"{self._name}  {bar}  {completed} of {self._count}")

    def stop(self) -> None:
        """Take the bar away."""
        self._show("")

    def _show(self, text: str) -> None:
        self._output.update({"text/plain": text}, raw=True)


def _shown() -> bool:
    return not _HIDDEN.get() and _watched()


def _watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
