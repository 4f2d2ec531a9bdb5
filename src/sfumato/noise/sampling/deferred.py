"""Tables that are built once they pay: the first numbers of a law are inverted one by one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.integers import as_integers
from sfumato.noise.sampling.inversion import RationalNumber, UniformDraw, invert, reaches

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.inversion import IntegerLaw, InversionTable

_WITHOUT_TABLE = 32
"""Numbers drawn before a table is built. One takes about 0.2 ms, the first table of a normal law 50 ms
(benchmarks/noise.py). Privacy does not depend on it: both ways have the same law."""


@dataclass(slots=True, eq=False)
class DeferredTable:
    """Draws from a law, at first without its table.

    Both ways invert the law at the same U, whose bits they read in the same order, sixteen first. So the same
    bits give the same number, but where they fall within the error of a threshold and the table reads more.
    """

    law: IntegerLaw
    guess: Callable[[float], int]
    """A place near the inverse of the law. A bad guess takes longer and changes nothing."""
    build: Callable[[], InversionTable]
    left: int = _WITHOUT_TABLE
    table: InversionTable | None = None

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, as Python integers where 64 bits may not be wide enough."""
        if self.table is None and count <= self.left:
            self.left -= count
            return self._draw_directly(count, source)
        return self._built().draw(count, source)

    def draw_one(self, source: BitSource) -> int:
        """Return one draw."""
        if self.table is None:
            return int(self.draw(1, source)[0])
        return self.table.draw_one(source)

    def _built(self) -> InversionTable:
        # Threads that build it at the same time build equal ones.
        if self.table is None:
            self.table = self.build()
        return self.table

    def _draw_directly(self, count: int, source: BitSource) -> IntArray:
        leading = source.words(-(-count // 4)).view(np.uint16)[:count].tolist()
        found: list[Any] = [self._decided(each) for each in leading]
        open_places = [place for place, value in enumerate(found) if value is None]
        further = source.words(len(open_places)).tolist()
        for place, word in zip(open_places, further, strict=True):
            number = leading[place] << 48 | word >> 16
            near = self.guess((number + 0.5) / 2**64)
            found[place] = invert(self.law, UniformDraw(number, 64, source), near)
        return as_integers(found)

    def _decided(self, leading: int) -> int | None:
        """Return the number that all U with these sixteen bits give; None where they do not decide it."""
        if leading in (0, 2**16 - 1):
            return None
        start, end = (RationalNumber(Fraction(leading + step, 2**16)) for step in (0, 1))
        found = invert(self.law, start, self.guess((leading + 0.5) / 2**16))
        return None if reaches(end, self.law, found + 1) else found


def guess_normal(chance: float) -> float:
    """Return about the z that a standard normal number stays below with this chance."""
    return NormalDist().inv_cdf(min(max(chance, 2.0**-70), 1 - 2.0**-53))
