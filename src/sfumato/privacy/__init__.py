"""The mathematics of privacy as values: no input or output, no randomness."""

from sfumato.privacy.account import NOTHING, ORDERS, Caps, Cost, Left, caps, left, price
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import DiscreteLaplace, Event, Pure, Sequential
from sfumato.privacy.explain import Explanation, explain
from sfumato.privacy.units import ROW, Unit

__all__ = [
    "NOTHING",
    "ORDERS",
    "ROW",
    "Budget",
    "Caps",
    "Cost",
    "DiscreteLaplace",
    "Event",
    "Explanation",
    "Left",
    "Pure",
    "Sequential",
    "Unit",
    "caps",
    "explain",
    "left",
    "price",
]
