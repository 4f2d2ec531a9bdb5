"""How much a question may cost, and the noise that follows from it. Decided from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.checked import checked, require_field
from sfumato.errors.numbers import format_number
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.privacy.calibration import (
    gaussian_sigma,
    rho_for,
    share_choice,
    share_epsilon,
    share_side,
    share_sigma,
)
from sfumato.privacy.canonical import written_by
from sfumato.privacy.exact import parse_exact, parse_positive
from sfumato.privacy.risk import epsilon_for_risk
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.privacy.account import Allowance

WHOLE = Fraction(1)

_ROUNDING = 1 + Fraction(1, 2**24)
"""Above what rounding up each of many sums can add to a price: a share of the budget is never exceeded."""


@dataclass(frozen=True, slots=True)
@checked
class Needs:
    """What a spend is split over: the sums, choices and keys that answer a question."""

    sums: tuple[SumSensitivity, ...]
    choices: int = 0
    """Number of quantiles or selections that are chosen beside the sums."""
    keys: bool = False
    """Whether keys are discovered, which costs a δ."""
    weights: tuple[Fraction, ...] = ()
    """Harm that the noise of each sum does to the answer, squared, in its own range; all alike if empty."""
    shaped: Needs | None = None
    """What it is split over instead where one noise has the shape of what a row adds to several sums."""

    def __post_init__(self) -> None:
        require_field(self.choices >= 0, self, "choices", "0 or more")
        require_field(all(weight >= 0 for weight in self.weights), self, "weights", "0 or more")

    @property
    def items(self) -> int:
        """Number of sums, choices and sets of keys that share the spend."""
        return sum(1 for each in self.sums if each.l1) + self.choices + self.keys

    def split(self, degree: int) -> Split:
        """Return parts that add up to one and whose `degree`-th powers are in proportion to the weights."""
        weights = self.weights or (Fraction(1),) * len(self.sums)
        roots = [_root(w, degree) if each.l1 else 0 for each, w in zip(self.sums, weights, strict=True)]
        others = (self.choices + self.keys) * _root(Fraction(1), degree)
        # At least 1, so that a question without any use of the spend does not divide by zero.
        whole = max(1, sum(roots) + others)
        other = min(WHOLE, Fraction(_root(Fraction(1), degree), whole))
        return Split(tuple(Fraction(each, whole) for each in roots), other)

    def spread(self, split: Split) -> Fraction:
        """Return the weighted variance of all that is asked at a pure ε of 1, up to a common factor."""
        weights = self.weights or (Fraction(1),) * len(self.sums)
        pairs = [(w, p) for w, p in zip(weights, split.sums, strict=True) if p]
        pairs += [(Fraction(1), split.other)] * (self.choices + self.keys)
        return sum((w / p**2 for w, p in pairs), start=Fraction(0))


@dataclass(frozen=True, slots=True)
@checked
class Split:
    """Part of a spend for each sum, 0 where no unit moves it; and the part for each choice or set of keys."""

    sums: tuple[Fraction, ...]
    other: Fraction

    def __post_init__(self) -> None:
        parts = (*self.sums, self.other)
        fits = all(part >= 0 for part in parts) and sum(self.sums) <= 1 and self.other <= 1
        require_field(fits, self, "sums", "parts of one whole")


@lru_cache(1024)
def _root(weight: Fraction, degree: int) -> int:
    """Return a root in 65,536ths, rounded down. In integers: prices must be the same on every machine."""
    # Bisection: the largest root whose power is not above what is wanted.
    wanted, low, high = weight * 2 ** (16 * degree), 0, 2**16 * (1 + math.ceil(weight))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= wanted else (low, middle)
    return low


# Whether noise is shaped is not written: it follows from the question.
def _write_pure(spend: PureSpend) -> dict[str, Any]:
    return {"": "Pure", "epsilon": spend.epsilon, "delta": spend.delta, "words": spend.words}


@written_by(_write_pure)
@dataclass(frozen=True, slots=True)
@checked
class PureSpend:
    """Pure ε with Laplace noise, shared by what is asked. A δ, where there is one, pays for keys alone.

    The variance of a sum with the part p of ε is in proportion to 1/p², so their weighted total is least
    where p³ is in proportion to the weight.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    words: str = ""
    shaped: bool = False
    """Whether sums that one row moves together have one noise in the shape of that, where it is known."""

    def __post_init__(self) -> None:
        require_field(self.epsilon > 0, self, "epsilon", "above 0")
        require_field(0 <= self.delta < 1, self, "delta", "0 or more, and below 1")

    def split(self, needs: Needs) -> Split:
        """Return the parts of the spend that give the least weighted variance."""
        return needs.split(3)

    def scale(self, sensitivity: SumSensitivity, part: Fraction = WHOLE) -> Fraction:
        """Return the scale of the noise for a sum of this sensitivity that has this part of the spend."""
        return sensitivity.l1 / (self.epsilon * part)

    def noise(self, sensitivity: SumSensitivity, part: Fraction = WHOLE) -> LaplaceNoise:
        """Return the noise for a sum of this sensitivity that has this part of the spend."""
        return LaplaceNoise(self.scale(sensitivity, part))

    def choice(self, part: Fraction = WHOLE) -> Fraction:
        """Return the pure ε of one choice."""
        return self.epsilon * part

    def __str__(self) -> str:
        return self.words or f"ε = {format_number(self.epsilon)}" + (
            f", δ = {format_number(self.delta)}" if self.delta else ""
        )


# Whether noise may be shaped is not written here either.
def _write_gaussian(spend: GaussianSpend) -> dict[str, Any]:
    return {"": "Rounded", "multiplier": spend.multiplier, "words": spend.words}


@written_by(_write_gaussian)
@dataclass(frozen=True, slots=True)
@checked
class GaussianSpend:
    """Gaussian noise whose σ is `multiplier` times the sensitivity of all that is asked together.

    Sums with the parts p of 1/multiplier² each are one Gaussian mechanism at it: those squares add up. A
    choice whose ε is 2·√p/multiplier has the same Rényi curve at most: ε²/8 = p/(2·multiplier²). The
    variance of a sum is in proportion to 1/p, so their weighted total is least where p² is in proportion to
    the weight.
    """

    multiplier: Fraction
    words: str
    shaped: bool = True
    """Whether sums that one row moves together have noise in the shape of that, where it does less harm."""

    def __post_init__(self) -> None:
        require_field(self.multiplier > 0, self, "multiplier", "above 0")

    def split(self, needs: Needs) -> Split:
        """Return the parts of the spend that give the least weighted variance."""
        return needs.split(2)

    def harm(self, needs: Needs) -> Fraction:
        """Return the weighted variance of all that is asked, up to a common factor."""
        split = self.split(needs)
        weights = needs.weights or (WHOLE,) * len(needs.sums)
        sums = sum((w / p for w, p in zip(weights, split.sums, strict=True) if p), start=Fraction(0))
        return sums + (needs.choices + needs.keys) / split.other

    def scale(self, sensitivity: SumSensitivity, part: Fraction = WHOLE) -> Fraction:
        """Return the σ of the noise for a sum of this sensitivity that has this part of the spend."""
        return root_up(sensitivity.l2_squared * self.multiplier**2 / part)

    def noise(self, sensitivity: SumSensitivity, part: Fraction = WHOLE) -> GaussianNoise:
        """Return the noise for a sum of this sensitivity that has this part of the spend."""
        return GaussianNoise(self.scale(sensitivity, part))

    def choice(self, part: Fraction = WHOLE) -> Fraction:
        """Return the pure ε of one choice."""
        return 2 / (self.multiplier * root_up(1 / part))

    def __str__(self) -> str:
        return self.words


Spend = PureSpend | GaussianSpend


def parse_spend(amounts: Mapping[str, Any], needs: Needs, allowed: Callable[[], Allowance]) -> Spend:
    """Return the spend that was typed: epsilon, epsilon and delta, rho, a risk, or a share of the budget.

    `allowed` is only called for a share: the ledger takes time to read.
    """
    spend = _parse_amounts(amounts, needs, allowed)
    return replace(spend, shaped=prefers_shape(needs)) if isinstance(spend, PureSpend) else spend


def prefers_shape(needs: Needs) -> bool:
    """Return whether shaped noise has the smaller error at the same pure ε."""
    if needs.shaped is None:
        return False
    one, other = (each.spread(each.split(3)) for each in (needs.shaped, needs))
    return one < other


def _parse_amounts(amounts: Mapping[str, Any], needs: Needs, allowed: Callable[[], Allowance]) -> Spend:
    match sorted(amounts):
        case ["epsilon"]:
            return _for_keys(needs, PureSpend(parse_positive(amounts["epsilon"], "epsilon")))
        case ["delta", "epsilon"]:
            return _approximate(
                parse_positive(amounts["epsilon"], "epsilon"), parse_exact(amounts["delta"], "delta"), needs
            )
        case ["rho"]:
            return _for_keys(needs, _concentrated(parse_positive(amounts["rho"], "rho")))
        case ["risk"]:
            return _for_keys(needs, _by_risk(amounts["risk"]))
        case ["share"]:
            return _share(allowed(), parse_exact(amounts["share"], "share"), needs)
    if "clip" in amounts:
        raise UsageError(
            "SF-Q210", "Only a single query is clipped automatically.", try_="release(…) without clip"
        )
    raise UsageError(
        "SF-N109",
        "Say how much to spend, in one way.",
        got=", ".join(amounts) or "nothing",
        try_="epsilon=0.1, or epsilon=1 with delta=1e-8, or rho=0.01, or share=0.02, or risk=0.55",
    )


def _by_risk(risk: Any) -> PureSpend:
    """Return the spend at which no guess from 50:50 is right more often than this."""
    epsilon = epsilon_for_risk(risk)
    hundred = format_number(100 * parse_exact(risk, "risk"))
    return PureSpend(epsilon, words=f"ε = {format_number(epsilon)}, at most {hundred} of 100 guesses right")


def _for_keys(needs: Needs, chosen: Spend) -> Spend:
    """Return the spend, unless keys are to be discovered, which takes a δ, and it has none."""
    if needs.keys and not (isinstance(chosen, PureSpend) and chosen.delta):
        raise PolicyError(
            "SF-Q143",
            "The groups of this question are not listed, and discovering which there are costs a delta.",
            why="a group that only one person is in would give them away",
            try_="release(epsilon=1, delta=1e-8), or declare the column with sf.one_of(…)",
        )
    return chosen


def _approximate(epsilon: Fraction, delta: Fraction, needs: Needs) -> Spend:
    """Return the spend for (ε, δ).

    For keys, δ is theirs. For sums alone it is the least Gaussian noise that is (ε, δ)-private. With choices,
    it is what their Rényi curves allow together, unless pure ε makes sharper choices.
    """
    words = f"ε = {format_number(epsilon)}, δ = {format_number(delta)}"
    multiplier = parse_exact(gaussian_sigma(epsilon, delta), "sigma")  # refuses a δ that is none
    if needs.keys:
        return PureSpend(epsilon, delta)
    if not needs.choices:
        return GaussianSpend(multiplier, words)
    pure = PureSpend(epsilon, words=words)
    rounded = GaussianSpend(root_up(1 / (2 * rho_for(epsilon, delta))), words)
    # Which of the two gives choices more ε depends on how many there are: squares against a plain sum.
    sharpest: list[Spend] = [pure, rounded]
    return max(sharpest, key=lambda each: each.choice(each.split(needs).other))


def _concentrated(rho: Fraction) -> Spend:
    """Return the Gaussian spend of this ρ = 1 / (2·multiplier²)."""
    return GaussianSpend(root_up(1 / (2 * rho)), f"ρ = {format_number(rho)}")


def _share(allowed: Allowance, share: Fraction, needs: Needs) -> Spend:
    """Return the spend with the smaller expected error among those that use this share of the budget."""
    words = f"{format_number(share * 100)} % of the budget"
    budget, limits = allowed.budget, allowed.caps
    pure = PureSpend(share_epsilon(budget, share, limits), words=words)
    if needs.keys:
        return _for_keys(needs, PureSpend(pure.epsilon, share_side(budget, share, limits), words))
    # Without a δ in the budget, Gaussian noise could never be admitted.
    if not budget.delta:
        return pure
    rounded = GaussianSpend(_share_multiplier(allowed, share, needs) * _ROUNDING, words)
    choices: tuple[Spend, Spend] = (pure, rounded)
    return min(choices, key=lambda each: _error(each, needs))


def _share_multiplier(allowed: Allowance, share: Fraction, needs: Needs) -> Fraction:
    """Return the least multiplier of noise for which sums and choices together use this share."""
    sums = share_sigma(allowed.budget, share, allowed.caps)
    # At a Rényi order a choice is no dearer than Gaussian noise, and in Gaussian DP it is a little.
    if not needs.choices or allowed.caps.gaussian is None:
        return sums
    part = GaussianSpend(sums, "").split(needs).other
    sharpest = share_choice(allowed.budget, share * part, allowed.caps)
    return max(sums, root_up(4 * part / sharpest**2))


def _error(chosen: Spend, needs: Needs) -> float:
    """Return the error in all sums, each relative to its sensitivity, plus that of choices, as 1/ε."""
    split = chosen.split(needs)
    parts = [(each, part) for each, part in zip(needs.sums, split.sums, strict=True) if part]
    noise = sum(chosen.noise(each, part).expected_error() / each.l1 for each, part in parts)
    return noise + needs.choices / float(chosen.choice(split.other))
