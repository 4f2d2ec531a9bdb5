"""How far off a chosen quantile or mode may be, in rows. Known from public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.question.measurement import ModeOf, QuantileOf
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.noise import ModeMechanism, QuantileMechanism, QuantilesMechanism

if TYPE_CHECKING:
    from sfumato.curator.answers.answer import ChosenPlaces
    from sfumato.curator.plan.steps import ChoiceMechanism
    from sfumato.curator.question.measurement import ChosenAggregate


def rank_error(mechanism: ChoiceMechanism, asked: ChosenAggregate, size: int, confidence: float) -> float:
    """Return how many rows off a choice is at most, with this confidence, out of `size` places.

    A mode has so many rows fewer than the most frequent value, a quantile lies so many from its rank.

    For one share that is proven (docs/proofs/quantiles.md). With several, it is the bound for each alone, at
    an equal part of ε, or what errors add up to where shares are chosen in turn, whichever is less.
    """
    if isinstance(mechanism, ModeMechanism):
        return mechanism.shortfall(size, confidence)
    if not isinstance(mechanism, QuantilesMechanism) or not isinstance(asked, QuantileOf):
        return mechanism.rank_error(size, confidence)
    number, share = len(mechanism.shares), asked.share
    alone = QuantileMechanism(mechanism.epsilon / number, share).rank_error(size, confidence)
    # A tree of halves has so many levels, which share ε and the risk. Orders are at least as good.
    levels = number.bit_length()
    one = QuantileMechanism(mechanism.epsilon / levels, share)
    return float(min(alone, one.rank_error(size, 1 - (1 - confidence) / levels) * levels))


def rank_note(asked: ChosenAggregate, chosen: ChosenPlaces) -> str:
    """Say how far off a shown choice may be; of levels and of combined answers, the worst of them."""
    # All of them hold together at 95 %.
    risk = 0.05 / len(chosen.rounds)
    rows = max(rank_error(each, asked, chosen.size, 1 - risk) for each in chosen.rounds)
    if isinstance(asked, ModeOf):
        return (
            f"at most {format_decimal(rows, 0)} rows fewer than the most frequent value of the group (95 %)"
        )
    if asked.is_end:
        return f"at most {format_decimal(rows, 0)} rows of the group lie beyond it (95 %)"
    several = any(isinstance(each, QuantilesMechanism) and each.levels > 1 for each in chosen.rounds)
    sure = "about" if several else "at most"
    return (
        f"{sure} {format_decimal(rows, 0)} rows from rank "
        f"{format_number(float(asked.share))} of the group (95 %)"
    )
