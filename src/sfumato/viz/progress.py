"""A progress bar for long fits. It counts rounds or steps, whose number is public, and never rows."""

from __future__ import annotations

import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 1.0
"""Seconds that a fit takes before a bar is shown at all."""
_PARTS = 10
"""Parts of a run after which a line is printed and the description of a bar is renewed."""


def show_rounds(rounds: int, name: str) -> Iterator[int]:
    """Yield the numbers of so many rounds, with a bar where someone watches and it takes a while."""
    with ProgressBar(rounds, name) as bar:
        for done in range(rounds):
            yield done
            bar.show(done + 1)


def report_rounds(name: str, verbose: Any) -> Callable[[], None]:
    """Return what is called when a round was charged; it prints a line where that was asked for."""
    rounds = count(1)

    def report() -> None:
        done = next(rounds)
        if verbose:
            print(f"{name}: round {done} is charged")  # noqa: T201  asked for by `verbose`

    return report


class ProgressBar:
    """A bar of so many steps, where someone watches and it takes a while; and lines, if they are asked for.

    `describe` says what is public about a number of steps, such as what they cost.
    """

    def __init__(
        self, count: int, name: str, lines: object = False, describe: Callable[[int], str] | None = None
    ) -> None:
        self._count, self._name, self._lines, self._describe = count, name, lines, describe
        self._began = time.monotonic()
        self._bar: Any = None
        self._part = 0

    def __enter__(self) -> Self:
        return self

    def show(self, done: int) -> None:
        """Show that so many rounds are done."""
        part = _PARTS * done // self._count
        grown, self._part = part > self._part, part
        if grown and self._lines:
            print(f"{self._name}: {done:,} of {self._count:,}{self._note(done)}")  # noqa: T201  asked for
        if self._bar is None and _shown() and time.monotonic() - self._began > _PATIENCE:
            self._bar = self._begun()
        if self._bar is not None:
            # What is said of a number of steps takes longer to find than a step.
            said = {"description": f"{self._name}{self._note(done)}"} if grown and self._describe else {}
            self._bar.update(0, completed=done, **said)

    def _note(self, done: int) -> str:
        return "" if self._describe is None else f", {self._describe(done)}"

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

    def update(self, _: int, completed: int, description: str | None = None) -> None:
        """Draw the bar anew if it has grown."""
        self._name = description or self._name
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
    return _watched()


def _watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
