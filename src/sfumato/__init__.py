"""sfumato: learn from sensitive tables without learning about any one person in them.

    lab = sf.create("clinic")              a folder with a catalog, a ledger and prepared snapshots
    lab.register("visits", "visits.parquet", unit=…, columns=…, budget=…)
    lab.session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.1)

Everything else is found from here; rooms are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato import attacks, audit, deep, learn, local, noise, online, privacy, synth, viz
    from sfumato.curator.catalog.columns import between, one_of, text
    from sfumato.lab.backup import accept, restore
    from sfumato.lab.lab import Lab, create, open
    from sfumato.lab.remote.session import connect
    from sfumato.privacy.bound_choice import choose
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.graph_units import Edge, Node
    from sfumato.privacy.neighbours import ADD_REMOVE, REPLACE_ONE
    from sfumato.privacy.units import PUBLIC, ROW, Unit
    from sfumato.queries.aggregations import (
        bins,
        correlation,
        count,
        covariance,
        distinct,
        max,
        mean,
        median,
        min,
        mode,
        quantile,
        stddev,
        sum,
        units,
        variance,
    )

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(
        (
            "bins",
            "correlation",
            "count",
            "covariance",
            "distinct",
            "max",
            "mean",
            "median",
            "min",
            "mode",
            "quantile",
            "stddev",
            "sum",
            "units",
            "variance",
        ),
        "sfumato.queries.aggregations",
    ),
    "ADD_REMOVE": "sfumato.privacy.neighbours",
    "PUBLIC": "sfumato.privacy.units",
    "REPLACE_ONE": "sfumato.privacy.neighbours",
    "ROW": "sfumato.privacy.units",
    "Budget": "sfumato.privacy.budget",
    "Edge": "sfumato.privacy.graph_units",
    "Lab": "sfumato.lab.lab",
    "Node": "sfumato.privacy.graph_units",
    "Unit": "sfumato.privacy.units",
    "accept": "sfumato.lab.backup",
    "between": "sfumato.curator.catalog.columns",
    "choose": "sfumato.privacy.bound_choice",
    "connect": "sfumato.lab.remote.session",
    "create": "sfumato.lab.lab",
    "one_of": "sfumato.curator.catalog.columns",
    "open": "sfumato.lab.lab",
    "restore": "sfumato.lab.backup",
    "text": "sfumato.curator.catalog.columns",
}
_ROOMS = (
    "attacks",
    "audit",
    "deep",
    "errors",
    "learn",
    "local",
    "noise",
    "online",
    "privacy",
    "synth",
    "viz",
)

__all__ = [
    "ADD_REMOVE",
    "PUBLIC",
    "REPLACE_ONE",
    "ROW",
    "Budget",
    "Edge",
    "Lab",
    "Node",
    "Unit",
    "__version__",
    "accept",
    "attacks",
    "audit",
    "between",
    "bins",
    "choose",
    "connect",
    "correlation",
    "count",
    "covariance",
    "create",
    "deep",
    "distinct",
    "learn",
    "local",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "noise",
    "one_of",
    "online",
    "open",
    "privacy",
    "quantile",
    "restore",
    "stddev",
    "sum",
    "synth",
    "text",
    "units",
    "variance",
    "viz",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"sfumato.{name}")
    raise AttributeError(f"module 'sfumato' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
