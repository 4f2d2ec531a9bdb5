"""How far a chosen quantile may stand from the rank asked for, in rows. Known from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.noise import ExtremeMechanism, QuantileMechanism, QuantilesMechanism

if TYPE_CHECKING:
    from sfumato.curator.answers.answer import ChosenQuantiles
    from sfumato.curator.question import measurement


def rank_error(
    mechanism: QuantilesMechanism | ExtremeMechanism,
    asked: measurement.QuantileOf,
    size: int,
    confidence: float,
) -> float:
    """Return how many rows off a quantile is at most, with this confidence, out of `size` places.

    For one share that is proven (docs/proofs/quantiles.md). With several, one is chosen after the other on up
    to `levels` levels, and this is what those errors add up to while no place holds more rows than that.
    """
    if isinstance(mechanism, ExtremeMechanism):
        return mechanism.rank_error(size, confidence)
    # The risk is shared by the levels, and so is ε.
    levels = mechanism.levels
    one = QuantileMechanism(mechanism.epsilon / levels, asked.share)
    return float(one.rank_error(size, 1 - (1 - confidence) / levels) * levels)


def rank_note(asked: measurement.QuantileOf, chosen: ChosenQuantiles) -> str:
    """Say how far off a shown quantile may be; for combined answers, the worst of them: it lies between."""
    # All of them hold together at 95 %.
    risk = 0.05 / len(chosen.rounds)
    rows = max(rank_error(each, asked, chosen.size, 1 - risk) for each in chosen.rounds)
    if asked.is_end:
        return f"at most {rows:,.0f} rows of the group lie beyond it (95 %)"
    several = any(isinstance(each, QuantilesMechanism) and each.levels > 1 for each in chosen.rounds)
    sure = "about" if several else "at most"
    return f"{sure} {rows:,.0f} rows from rank {float(asked.share):.4g} of the group (95 %)"
