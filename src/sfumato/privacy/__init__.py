"""The mathematics of privacy as frozen values: units, events, budgets, accounting, calibration.

Nothing here reads a file, draws a random number or knows a table. Events and prices are written to ledgers,
so their tags and field names never change (canonical.py, events/tags.py).
"""

from sfumato.privacy.account import NOTHING, ORDERS, Caps, Cost, Left, caps, left, price
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import (
    average_error,
    gaussian_sigma,
    sample_size,
    sampled_sigma,
    share_epsilon,
    share_sigma,
)
from sfumato.privacy.composition import delta, epsilon, mu
from sfumato.privacy.conversion import renyi_delta, renyi_epsilon, rho, rho_epsilon
from sfumato.privacy.curves import Tradeoff, posterior, posterior_curve, tradeoff
from sfumato.privacy.deployments import DEPLOYMENTS, Deployment, compare_deployments
from sfumato.privacy.events import (
    ApproxDP,
    BestOf,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KeyRelease,
    KNorm,
    Laplace,
    NonPrivate,
    Parallel,
    PrivacyProfile,
    Pure,
    RandomizedAnswer,
    RenyiCurve,
    Repeated,
    Sampled,
    Sequential,
    SpreadExponential,
    SpreadLaplace,
    ThresholdedKeys,
    from_dict,
    group,
)
from sfumato.privacy.explain import Explanation, explain
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.risk import bound_risk, epsilon_for_risk, event_success, guess_success
from sfumato.privacy.sensitivity import Sensitivity, correlated_gaussian
from sfumato.privacy.tools.converters import from_dp_event, from_opendp, to_dp_event, to_opendp
from sfumato.privacy.tools.odometer import Odometer, read_odometer
from sfumato.privacy.tools.planning import NoisePlan, PlannedNoise, Wish, plan
from sfumato.privacy.tools.profile import Profile, profile
from sfumato.privacy.units import ROW, Unit

__all__ = [
    "DEPLOYMENTS",
    "NOTHING",
    "ORDERS",
    "ROW",
    "ApproxDP",
    "BestOf",
    "Budget",
    "Caps",
    "Concentrated",
    "Cost",
    "Deployment",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Explanation",
    "Exponential",
    "Gaussian",
    "Grouped",
    "KNorm",
    "KeyRelease",
    "Laplace",
    "Left",
    "Neighbours",
    "NoisePlan",
    "NonPrivate",
    "Odometer",
    "Parallel",
    "PlannedNoise",
    "PrivacyProfile",
    "Profile",
    "Pure",
    "RandomizedAnswer",
    "RenyiCurve",
    "Repeated",
    "Sampled",
    "Sensitivity",
    "Sequential",
    "SpreadExponential",
    "SpreadLaplace",
    "ThresholdedKeys",
    "Tradeoff",
    "Unit",
    "Wish",
    "average_error",
    "bound_risk",
    "caps",
    "compare_deployments",
    "correlated_gaussian",
    "delta",
    "epsilon",
    "epsilon_for_risk",
    "event_success",
    "explain",
    "from_dict",
    "from_dp_event",
    "from_opendp",
    "gaussian_sigma",
    "group",
    "guess_success",
    "left",
    "mu",
    "plan",
    "posterior",
    "posterior_curve",
    "price",
    "profile",
    "read_odometer",
    "renyi_delta",
    "renyi_epsilon",
    "rho",
    "rho_epsilon",
    "sample_size",
    "sampled_sigma",
    "share_epsilon",
    "share_sigma",
    "to_dp_event",
    "to_opendp",
    "tradeoff",
]
