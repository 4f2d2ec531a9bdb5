"""How far a chosen quantile may stand from the rank asked for, in rows. Known from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.noise import Quantile

if TYPE_CHECKING:
    from sfumato.curator import measurement
    from sfumato.curator.answer import Chosen
    from sfumato.noise import Quantiles


def rank_error(mechanism: Quantiles, asked: measurement.Quantile, size: int, confidence: float) -> float:
    """So many rows off at most, with this confidence, out of `size` places.

    For one share that is proven (docs/proofs/quantiles.md). Of several, one is chosen after the other on up
    to `levels` levels, and this is what those errors add up to while no place holds more rows than that.
    """
    levels = mechanism.levels
    one = Quantile(mechanism.epsilon / levels, asked.share)
    return float(one.rank_error(size, 1 - (1 - confidence) / levels) * levels)


def rank_note(asked: measurement.Quantile, chosen: Chosen) -> str:
    """Of several answers put together the worst counts: what is shown lies between them."""
    risk = 0.05 / len(chosen.rounds)
    rows = max(rank_error(each, asked, chosen.size, 1 - risk) for each in chosen.rounds)
    sure = "at most" if chosen.rounds[0].levels == 1 else "about"
    return f"{sure} {rows:,.0f} rows from rank {float(asked.share):.4g} of the group (95 %)"
