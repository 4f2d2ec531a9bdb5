"""Checkpoints of a training run: written whole, durable before the next steps, and gone on from at no cost.

A run is cut into stretches. The state after a stretch is durable before the next one begins, so a run that
was killed has lost the steps of one stretch at most. Whoever goes on takes these steps again, with batches
and noise of their own. The steps that were lost may have been seen, so the price counts them too: it is for
all stretches of the run and for as many more as it may be gone on with.

Because : docs/proofs/dp-sgd.md#checkpoints
"""

from __future__ import annotations

import fcntl
import io
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from sfumato.errors import PolicyError, UsageError
from sfumato.files.durable import replace_file
from sfumato.ledger import failpoints
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STRETCHES = 50
"""About how many stretches a run has. More lose less to a crash and to its price, and write more often."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stretches:
    """How a run is cut: all stretches have the same number of steps, except that the last may end earlier."""

    steps: int
    each: int
    spare: int
    """How often the run may be gone on with."""

    @classmethod
    def of(cls, steps: int, resumes: Any) -> Stretches:
        """Return the stretches of a run of so many steps."""
        return cls(steps, -(-steps // _STRETCHES), parse_whole(resumes, "resumes"))

    @property
    def needed(self) -> int:
        """The number of stretches of a run that is never killed."""
        return -(-self.steps // self.each)

    @property
    def count(self) -> int:
        """The number of stretches that are priced."""
        return self.needed + self.spare

    @property
    def priced(self) -> int:
        """The number of steps that are priced."""
        return self.count * self.each

    def count_left(self, done: int) -> int:
        """Return how many stretches are to come after so many steps."""
        return -(-(self.steps - done) // self.each)


class CheckpointedRun(Protocol):
    """A run that can be put aside after any step."""

    done: int

    def step(self) -> None:
        """Take one step and count it in `done`."""

    def write_state(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as tensors and plain values."""

    def read_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `write_state` returned."""


@dataclass(slots=True)
class Checkpoint:
    """The file of one run."""

    path: Path
    alike: str
    """Names what the run is: a file of another run is refused."""
    stretches: Stretches
    described: str = ""
    """What the run was recognised by when it began."""
    request: str = ""
    """The question that the run answers behind the curator."""
    resumed: int = 0

    @classmethod
    def at(cls, path: Any, alike: str, stretches: Stretches, described: str = "") -> Checkpoint:
        """Return the checkpoint at a path, before anything was read or written."""
        try:
            found = Path(path)
        except TypeError:
            raise UsageError(
                "SF-E179", "A checkpoint is a path.", try_='Trainer(…, checkpoint="run.pt")'
            ) from None
        if not found.parent.is_dir():
            raise UsageError(
                "SF-E179",
                "The folder for the checkpoint does not exist.",
                try_="a path in a folder that exists",
            )
        return cls(found, alike, stretches, described)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep out every other run with this checkpoint until the block ends."""
        descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(
                "SF-E179", "Another run is using this checkpoint.", try_="a path of its own for each run"
            ) from None
        try:
            yield
        finally:
            os.close(descriptor)

    def read(self) -> dict[str, Any] | None:
        """Return what the file holds, if there is one, and take over how it was begun."""
        if not self.path.exists():
            return None
        try:
            # Tensors and plain values alone: a file must not be a program.
            saved: dict[str, Any] = torch.load(io.BytesIO(self.path.read_bytes()), weights_only=True)
            version, alike, described = saved["version"], saved["alike"], str(saved["described"])
            resumed, _, _ = int(saved["resumed"]), saved["state"], int(saved["done"])
        except Exception as problem:  # torch raises what its archive and its pickles do
            raise _other_run("This is no checkpoint that can be read.") from problem
        if version != _VERSION or alike != self.alike:
            raise _other_run("This is the checkpoint of a run with other settings.")
        self.described, self.resumed = described, resumed
        return saved

    def go_on(self, run: CheckpointedRun, *, counted: bool) -> None:
        """Begin a run durably, or put it where its checkpoint is.

        With `counted` somebody else counts how often it is gone on with; else the file does.
        """
        saved = self.read()
        if saved is None:
            self._write(run)
            return
        if saved.get("request") != self.request:
            raise _other_run("This is the checkpoint of a run on other rows.")
        try:
            run.read_state(saved["state"])
        except (KeyError, RuntimeError, ValueError, TypeError) as problem:
            raise _other_run("This is the checkpoint of a run with another module or optimiser.") from problem
        run.done = min(max(int(saved["done"]), 0), self.stretches.steps)
        if run.done < self.stretches.steps:
            if not counted and self.resumed >= self.stretches.spare:
                raise refuse_resuming(self.stretches.spare)
            # Before any step: whoever is killed now has used one of them.
            self.resumed += 1
            self._write(run)

    def run_stretches(self, run: CheckpointedRun, draw: Callable[[], object] | None = None) -> None:
        """Take all steps that are left. `draw` counts each stretch but the first durably before it."""
        while run.done < self.stretches.steps:
            for _ in range(min(self.stretches.each, self.stretches.steps - run.done)):
                run.step()
            self._write(run)
            if draw is not None and run.done < self.stretches.steps:
                draw()

    def _write(self, run: CheckpointedRun) -> None:
        failpoints.reach("checkpoint:begun")
        held = io.BytesIO()
        state = {
            "version": _VERSION,
            "alike": self.alike,
            "described": self.described,
            "request": self.request,
        }
        torch.save({**state, "resumed": self.resumed, "done": run.done, "state": run.write_state()}, held)
        failpoints.reach("checkpoint:written")
        replace_file(self.path, held.getvalue(), private=True)
        failpoints.reach("checkpoint:durable")


def _other_run(sentence: str) -> UsageError:
    return UsageError(
        "SF-E179", sentence, try_="the settings that the run was begun with, or another path for another run"
    )


def refuse_resuming(spare: int) -> PolicyError:
    """Return the refusal of a run that was gone on with as often as was priced."""
    return PolicyError(
        "SF-N604",
        "This run was gone on with as often as its price allows.",
        priced=f"{spare} times",
        why="steps that were lost may have been seen, so each time costs a stretch of steps",
        try_="another run with another path, and more resumes=",
    )
