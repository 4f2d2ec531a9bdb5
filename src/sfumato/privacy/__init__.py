"""The mathematics of privacy as values: no input or output, no randomness."""

from sfumato.privacy.account import NOTHING, ORDERS, Caps, Cost, Left, caps, left, price
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import (
    ApproxDP,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    NonPrivate,
    Parallel,
    Pure,
    RandomizedResponse,
    Repeated,
    Sampled,
    Sequential,
    ThresholdedKeys,
    from_dict,
    group,
)
from sfumato.privacy.explain import Explanation, explain
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import ROW, Unit

__all__ = [
    "NOTHING",
    "ORDERS",
    "ROW",
    "ApproxDP",
    "Budget",
    "Caps",
    "Cost",
    "DiscreteLaplace",
    "Event",
    "Explanation",
    "Exponential",
    "Gaussian",
    "Grouped",
    "Laplace",
    "Left",
    "Neighbours",
    "NonPrivate",
    "Parallel",
    "Pure",
    "RandomizedResponse",
    "Repeated",
    "Sampled",
    "Sequential",
    "ThresholdedKeys",
    "Unit",
    "caps",
    "explain",
    "from_dict",
    "group",
    "left",
    "price",
]
