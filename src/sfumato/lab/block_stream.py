"""A stream that is charged block by block: those who come in a month are paid for from its account."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.lab.stream import TableStream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.answers.quote import Quote
    from sfumato.curator.catalog.blocks import BudgetBlocks
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.streams.plan import ResolvedStream
    from sfumato.privacy.exact import Number


class BlockStream(TableStream):
    """A stream over a table whose time is cut into blocks. Each block has a charge and noise of its own.

    A unit counts in the block that it first comes in, and in no later one. So of each such stream it pays for
    one block in its lifetime.
    """

    _paid_for = "each block"

    @property
    def request(self) -> str:
        """The identity of all blocks together: that of a stream without blocks is another."""
        return hashlib.sha256(f"blocks of {super().request}".encode()).hexdigest()

    @property
    def blocks(self) -> tuple[TableStream, ...]:
        """The stream of each block that has begun. Windows and decays are asked of one of them."""
        resolved, series = self._resolve(), self.request
        terms = self._find_terms(resolved)
        domain: Any = resolved.time.domain
        through = resolved.table.through.get(terms.column, terms.since - 1)
        begun = set(terms.list_names(resolved.table.domain_of(terms.column), through))
        places = range(resolved.first, resolved.first + self.horizon)
        found: list[TableStream] = []
        for number, ticks in groupby(places, lambda place: terms.find_block(domain, place)):
            inside = list(ticks)
            start, name = domain.value_at(inside[0]), terms.name_block(number)
            if name not in begun:
                break
            asked = replace(self._question, start=start, horizon=len(inside), series=series)
            within = self._look_up(name), found[-1] if found else None
            text = f"{self._text}, {name}"
            found.append(TableStream(self._payer, (asked, text), self._spending, within=within))
        return tuple(found)

    def quote(self) -> Quote:
        """Return the price of the next block. Nothing is charged or read."""
        blocks = self.blocks
        if not blocks:
            raise self._not_ready_error()
        return next((each for each in blocks if each.tick < each.horizon), blocks[-1]).quote()

    def _find_terms(self, resolved: ResolvedStream) -> BudgetBlocks:
        terms = resolved.table.blocks
        if terms is None or terms.column != resolved.time_column:
            raise PolicyError(
                "SF-S113",
                f"'{resolved.table.name}' has no blocks of '{resolved.time_column}'.",
                try_='lab.set_blocks("visits", time="day", every="month", budget=sf.Budget(1, 1e-7))',
            )
        if self._question.window is not None:
            raise UsageError("SF-S103", "People who leave and return are counted without blocks.")
        return terms

    def _look_up(self, block: str) -> Any:
        """Return what finds the table with the account of those who come in a block."""

        def find(name: str) -> Table:
            return replace(self._payer.lab.table(name), block=block)

        return find

    def _release(self, most: int | None) -> int:
        done = 0
        for block in self.blocks:
            if done == most:
                break
            # Also for a block that is whole: what it remembers must be the newest before another begins.
            done += block.open_door().release_ticks(None if most is None else most - done)
            if block.tick < block.horizon:
                break
        self._note()
        return done

    def _sums(self) -> NDArray[Any]:
        """Return the sums so far: those of blocks before, and of the block of each tick."""
        found: list[NDArray[Any]] = []
        for block in self.blocks:
            sums = block._sums()
            if not len(sums):
                break
            found.append(sums + found[-1][-1] if found else sums)
        return np.concatenate(found) if found else self._no_sums()

    def _deviations(self, window: int | None, decay: Number | None) -> NDArray[np.float64]:
        if window is not None or decay is not None:
            raise UsageError(
                "SF-S103",
                "Windows and decays are within one block.",
                try_="stream.blocks[-1].values(window=7)",
            )
        squares: list[NDArray[np.float64]] = [np.zeros(1)]
        for block in self.blocks:
            own = block._deviations(None, None) ** 2
            if not len(own):
                break
            # Blocks have independent noise.
            squares.append(own + squares[-1][-1])
        return np.sqrt(np.concatenate(squares)[1:])
