"""Streams of a lab on another machine: what they would cost, and what was released of them."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.lab.remote.answers import RemoteQuote
from sfumato.lab.remote.expressions import encode_form
from sfumato.lab.remote.questions import encode_spending
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.lab.remote.connection import Connection

SPENDING = ("epsilon", "delta", "rho", "share", "risk")
"""How a stream's price is said."""


class RemoteStream:
    """A stream over a table on another machine. All may quote and read it; the steward releases ticks."""

    def __init__(
        self, connection: Connection, asked: Mapping[str, Any], released: Mapping[str, Any] | None = None
    ) -> None:
        self._connection, self._asked, self._said = connection, asked, released

    def quote(self) -> RemoteQuote:
        """Return the price of all ticks together, and the expected error. Nothing is charged or read."""
        said = self._connection.post("/api/streams/quote", self._asked)
        return RemoteQuote(said, lambda confidence: said)

    def run(self, ticks: int | None = None) -> RemoteStream:
        """Release the ticks that are complete and were not released yet, or at most so many of them."""
        # Up to a number and not so many more: sent twice, it is done once.
        until = None if ticks is None else self.tick + parse_whole(ticks, "ticks")
        body = {"stream": self._asked} if until is None else {"stream": self._asked, "until": until}
        self._said = self._connection.post("/api/streams/run", body)
        return self

    def refresh(self) -> RemoteStream:
        """Read again what was released."""
        self._said = None
        return self

    @property
    def text(self) -> str:
        """What is asked, for people."""
        return str(self._read()["question"])

    @property
    def horizon(self) -> int:
        """The number of ticks that the charge is for."""
        return int(self._read()["horizon"])

    @property
    def tick(self) -> int:
        """Number of ticks released so far."""
        return len(self._read()["ticks"])

    def ticks(self) -> list[str]:
        """Return what the released ticks stand for: when each starts, or its number."""
        return list(self._read()["ticks"])

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The groups, in the order of the columns of `values`."""
        return [tuple(each) for each in self._read()["groups"]]

    def values(self, window: int | None = None, decay: Any = None) -> NDArray[np.float64]:
        """Return what was released so far at every tick: one number, or one for each group."""
        return np.array(self._read(window, decay)["values"], dtype=np.float64)

    def half_widths(self, window: int | None = None, decay: Any = None) -> NDArray[np.float64]:
        """Return half the widths of 95 % intervals, tick by tick."""
        return np.array(self._read(window, decay)["half_widths"], dtype=np.float64)

    def plot(self) -> viz.Chart:
        """Return a chart of the values and their intervals over the ticks; of groups, of the first one."""
        values, half = self.values(), self.half_widths()
        if not len(values):
            raise UsageError("SF-N606", "No tick has been released yet.", try_="run()")
        first, wide = (each.reshape(len(values), -1)[:, 0] for each in (values, half))
        return viz.bars(self.ticks(), first, first - wide, first + wide, title=self.text, x="tick")

    def to_dict(self) -> dict[str, Any]:
        """Return the stream and all that it has released, ready for JSON."""
        return dict(self._read())

    def __repr__(self) -> str:
        return f"{self.text}; {self.tick:,} of {self.horizon:,} ticks released"

    def _read(self, window: int | None = None, decay: Any = None) -> Mapping[str, Any]:
        if window is None and decay is None:
            if self._said is None:
                self._said = self._connection.post("/api/streams/read", {"stream": self._asked})
            return self._said
        given = encode_spending({"window": window, "decay": decay})
        body = {"stream": self._asked, **given}
        found: Mapping[str, Any] = self._connection.post("/api/streams/read", body)
        return found


def encode_stream(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a stream is, ready for JSON."""
    spend = {name: typed[name] for name in SPENDING if typed.get(name) is not None}
    asked = {name: each for name, each in typed.items() if name not in SPENDING and each is not None}
    measure, by, start = asked.pop("measure"), asked.pop("by", ()), asked.pop("start", None)
    asked["measure"] = measure if isinstance(measure, str) else encode_form(measure)
    asked["by"] = [by] if isinstance(by, str) else list(by)
    if isinstance(start, date | datetime):
        start = start.isoformat()
    return {**asked, **({} if start is None else {"start": start}), "spend": encode_spending(spend)}
