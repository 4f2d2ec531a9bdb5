"""Events: what happened to the data, as frozen values that know their own price.

An event's tag and field names are written to ledgers and never change. Its price may fall where a tighter
bound is proven, and never rises; ledgers keep the price that was charged (docs/decisions/0023).
"""

from sfumato.privacy.events.best_of import BestOf
from sfumato.privacy.events.claims import DiscreteGaussian, PrivacyProfile, RenyiCurve
from sfumato.privacy.events.composite import Parallel, Repeated, Sequential
from sfumato.privacy.events.event import Event
from sfumato.privacy.events.grouped import Grouped, group
from sfumato.privacy.events.key_release import KeyRelease
from sfumato.privacy.events.sampled import Sampled
from sfumato.privacy.events.simple import (
    ApproxDP,
    Concentrated,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    KNorm,
    Laplace,
    NonPrivate,
    Pure,
    RandomizedAnswer,
    ThresholdedKeys,
)
from sfumato.privacy.events.spread import (
    Moves,
    SpreadExponential,
    SpreadLaplace,
    list_moves,
    pack_moves,
    price_choices,
    price_laplace,
    scale_moves,
    sum_moves,
    sum_squares,
)
from sfumato.privacy.events.tags import from_dict

__all__ = [
    "ApproxDP",
    "BestOf",
    "Concentrated",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Exponential",
    "Gaussian",
    "Grouped",
    "KNorm",
    "KeyRelease",
    "Laplace",
    "Moves",
    "NonPrivate",
    "Parallel",
    "PrivacyProfile",
    "Pure",
    "RandomizedAnswer",
    "RenyiCurve",
    "Repeated",
    "Sampled",
    "Sequential",
    "SpreadExponential",
    "SpreadLaplace",
    "ThresholdedKeys",
    "from_dict",
    "group",
    "list_moves",
    "pack_moves",
    "price_choices",
    "price_laplace",
    "scale_moves",
    "sum_moves",
    "sum_squares",
]
