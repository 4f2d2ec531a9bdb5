"""Errors of several systems in the same cells, and where they are kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parts.studies import ROOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KEPT = ROOT / "docs" / "measured" / "usefulness.json"


@dataclass(frozen=True, slots=True)
class Error:
    """The mean absolute error of one system in one cell, and its standard error."""

    mean: float
    deviation: float
    half_width: float
    """What 95 % of the errors are below; of counts, which are whole numbers, between these."""

    @classmethod
    def of(
        cls, answers: Floats, truth: Floats, bounds: tuple[Floats, Floats], is_variance: bool = False
    ) -> Error:
        """Return the error of answers, one layer a draw, in parts of the range where there is one.

        A missing answer says that there may be no rows: in its place stands what a uniform law over the
        bounds has, the middle for an average and a third of the largest for a variance.
        """
        low, high = bounds
        bounded = bool(np.isfinite(high).all())
        width = high - low if bounded else np.ones_like(low)
        unknown = np.where(is_variance, high / 3, (low + high) / 2) if bounded else np.zeros_like(low)
        inside = np.where(np.isnan(answers), unknown[..., None], answers)
        inside = np.clip(inside, low[..., None], high[..., None])
        errors = np.abs(inside - truth[..., None]) / width[..., None]
        each = errors.mean(axis=(0, 1))
        found = (
            np.quantile(errors, 0.95, axis=2) if bounded else np.apply_along_axis(_find_between, 2, errors)
        )
        half_width = float(found.mean())
        return cls(float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size)), half_width)


def _find_between(errors: Floats) -> float:
    """Return what 95 % of whole errors are below, as if those of 5 rows were spread from 4.5 to 5.5.

    Else 4.7 and 8.1 rows would be told as 5 and 8. Within a row the logarithm of the tail falls evenly.
    """
    at = float(np.quantile(errors, 0.95, method="inverted_cdf"))
    from_here, beyond = (errors >= at).mean(), max((errors > at).mean(), 1 / (2 * errors.size))
    return at - 0.5 + float(np.log(from_here / 0.05) / np.log(from_here / beyond))


@dataclass(slots=True)
class Measured:
    """The errors in one cell: ours, ours as it was before, and of each library in its best way."""

    name: str
    figure: str
    study: str
    grouped: bool
    epsilon: float
    delta: float
    ours: Error
    before: Error | None
    peers: dict[str, Error] = field(default_factory=dict)


def divide(ours: float, other: float) -> float:
    """Return a ratio of errors: 1 where there is none on either side."""
    return ours / other if other else (1.0 if not ours else float("inf"))


def write_kept(measured: list[Measured]) -> None:
    """Keep what was measured; what others had in cells where they were not asked stays."""
    kept = {each.name: each for each in read_kept()}
    for each in measured:
        each.peers = {**(kept[each.name].peers if each.name in kept else {}), **each.peers}
        kept[each.name] = each
    rounded = [{k: _round(v) for k, v in asdict(each).items()} for each in kept.values()]
    lines = ",\n ".join(json.dumps(each, ensure_ascii=False) for each in rounded)
    KEPT.write_text(f"[\n {lines}\n]\n", encoding="utf-8")


def _round(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _round(each) for name, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def read_kept() -> list[Measured]:
    """Return what was measured before."""
    if not KEPT.exists():
        return []
    return [
        Measured(
            **{
                **each,
                "ours": Error(**each["ours"]),
                "before": None if each["before"] is None else Error(**each["before"]),
                "peers": {name: Error(**error) for name, error in each["peers"].items()},
            }
        )
        for each in json.loads(KEPT.read_text(encoding="utf-8"))
    ]
