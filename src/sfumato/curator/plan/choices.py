"""How quantiles and modes of a question are chosen, and what is counted around them for their intervals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.lower.lowered_value import add_integer
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.steps import Choices, DiscoveredChoices
from sfumato.curator.question.measurement import MINIMUM_SHARE, ModeOf, QuantileOf
from sfumato.engines import program as engine
from sfumato.noise import ExtremeMechanism, ModeMechanism, QuantilesMechanism, Surroundings

if TYPE_CHECKING:
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.steps import ChoiceMechanism, ChoiceStep
    from sfumato.curator.question.measurement import ChosenAggregate
    from sfumato.engines.values import Value

_AROUND = Fraction(1, 50)
"""Part of the spend of a quantile for the counts around it, which its interval is computed from."""
_GROWTHS = (2, 4, 16)
"""How much further each edge around a quantile may be than the one before: the first that is not too much."""
_FEW_KEYS = 2**10
"""Number of keys that edges are planned for where keys are discovered."""
_MOST_COUNTS = 2**16
"""Most numbers that are kept for the intervals of one value's quantiles."""


def plan_choices(
    resolved: ResolvedQuestion,
    part: LoweredValue,
    asked: tuple[ChosenAggregate, ...],
    spend: Spend,
    share: Fraction,
    counts_around: bool,
) -> ChoiceStep:
    """Choices of one value. All rows of a unit share the ε of the choice."""
    domain: Any = part.domain
    value: Value = add_integer(part.value, -domain.low)
    contribution = resolved.contribution
    around = _around(resolved, domain.size, asked, spend, share) if counts_around else None
    epsilon = spend.choice(share if around is None else share * (1 - _AROUND))
    mechanism = _choice_mechanism(asked, epsilon / contribution.counted, domain.size)
    if resolved.discovers_keys:
        counted = engine.KeyedSums(
            *resolved.rows, (*engine_keys(resolved), value), (engine.Counted(),), null_places(resolved)
        )
        return DiscoveredChoices(counted, domain.size, mechanism, contribution.row_moves, around)
    keys = tuple(key.engine_key() for key in resolved.keys)
    program = engine.CellHistogram(*resolved.rows, keys, value, domain.size)
    return Choices(program, mechanism, contribution.row_moves, around)


def _around(
    resolved: ResolvedQuestion,
    size: int,
    asked: tuple[ChosenAggregate, ...],
    spend: Spend,
    share: Fraction,
) -> Surroundings | None:
    """Return what counts rows around quantiles; None for ends and modes, and where it would be too much."""
    if isinstance(asked[0], ModeOf) or asked[0].is_end:
        return None
    sensitivity = SumSensitivity.of(resolved.contribution.row_moves)
    noise = spend.noise(sensitivity, share * _AROUND)
    shares = len({each.share for each in asked if isinstance(each, QuantileOf)})
    # How many keys will be discovered is not known: their edges are few from the start.
    cells = _FEW_KEYS if resolved.discovers_keys else resolved.cells
    fitting = (Surroundings(noise, growth) for growth in _GROWTHS)
    return next((each for each in fitting if each.numbers(shares, size) * cells <= _MOST_COUNTS), None)


def _choice_mechanism(asked: tuple[ChosenAggregate, ...], epsilon: Fraction, cells: int) -> ChoiceMechanism:
    if isinstance(asked[0], ModeOf):
        return ModeMechanism(epsilon)
    # The same share asked twice is chosen once.
    shares = tuple(dict.fromkeys(each.share for each in asked if isinstance(each, QuantileOf)))
    if asked[0].is_end:
        return ExtremeMechanism.calibrated(epsilon, cells, highest=shares[0] > MINIMUM_SHARE)
    return QuantilesMechanism(epsilon, shares)


def engine_keys(resolved: ResolvedQuestion) -> tuple[Value, ...]:
    """Return the keys as engines group by them where they are to be discovered: their values."""
    return tuple(key.part.value for key in resolved.keys)


def null_places(resolved: ResolvedQuestion) -> tuple[int, ...]:
    """Return the places of the keys that have a group for missing ones."""
    return tuple(place for place, key in enumerate(resolved.keys) if key.nulls)
