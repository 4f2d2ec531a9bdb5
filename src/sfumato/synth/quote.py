"""How a synthesis will spend its budget, before it does: shares and noise, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato import viz
from sfumato.errors.numbers import format_number, format_share
from sfumato.synth.kernel import QUANTILES
from sfumato.synth.selection import MEASURED, MST_CHOICES, share_of_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.synth.kernel import MarginalsKernel


@dataclass(frozen=True, slots=True)
class SynthesisQuote:
    """What a synthesis costs, and how that is divided."""

    cost: str
    parts: tuple[tuple[str, float, str], ...]
    """What is paid for, its share of the whole, and what that buys."""

    @classmethod
    def of(cls, cost: str, parts: Iterable[tuple[str, Fraction, str]]) -> SynthesisQuote:
        """Return a quote of parts whose shares are exact."""
        return cls(cost, tuple((name, float(share), buys) for name, share, buys in parts))

    def __str__(self) -> str:
        return "\n".join(
            [self.cost, *(f"{format_share(share):>7}  {name}: {buys}" for name, share, buys in self.parts)]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(f"{format_share(share)} {name}", buys) for name, share, buys in self.parts]
        return viz.definition_table([("cost", self.cost), *rows])


def describe_noise(deviation: float) -> str:
    """Return how far Gaussian noise of this standard deviation reaches, in words."""
    return f"± {format_number(1.96 * deviation, 3)} at 95 %"


def quote_kernel(kernel: MarginalsKernel, cost: str) -> SynthesisQuote:
    """Return how a kernel will spend its amount, of which `cost` says in words what it is."""
    bins = QUANTILES if kernel.bought else Fraction(0)
    rest, columns = 1 - bins, len(kernel.columns)
    alone = rest * share_of_columns(
        kernel.method, kernel.currency, columns, bool(kernel.weights) or kernel.method == "mst"
    )
    noise = kernel.currency.make_noise(alone * kernel.amount / columns)
    parts = [("bins at quantiles", bins, f"{len(kernel.bought)} columns")] if bins else []
    parts.append(
        ("single columns", alone, f"{columns} columns, each count ± {noise.half_width(0.95)} at 95 %")
    )
    left = rest - alone
    if left and kernel.method == "mst":
        chosen, pairs = MST_CHOICES * left, (1 - MST_CHOICES) * left
        width = kernel.currency.make_noise(pairs * kernel.amount / (columns - 1)).half_width(0.95)
        parts.append(("choices", chosen, f"{columns - 1} pairs that span a tree"))
        parts.append(("pairs", pairs, f"each count ± {width} at 95 %"))
    elif left:
        parts.append(
            ("choices", left * (1 - MEASURED), f"among {len(kernel.weights)} marginals, one a round")
        )
        parts.append(
            ("marginals", left * MEASURED, "noise as of single columns at first, less as rounds teach less")
        )
    return SynthesisQuote.of(cost, parts)
