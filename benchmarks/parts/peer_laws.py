"""Answers of other libraries, drawn from the laws of noise that they state for a question.

A library is asked for the scale of each noise that it would add, and for the scores that it would choose by;
drawing tens of thousands of answers from these laws is then a matter of NumPy, and fine enough to tell
ratios of 1.02 from 1. What a library computes from its noisy sums is computed here in the same way: averages
are sums of deviations over counts of at least one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parts.studies import Cell, Group

    Floats = NDArray[np.float64]


def rescale(law: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return the law of the same question where every scale is so many times as large."""
    if "choices" in law:
        chosen = [[_rescale_choice(each, factor) for each in by_group] for by_group in law["choices"]]
        return {**law, "choices": chosen}
    scaled = ("sum", "square", "count")
    columns = {
        name: {key: _times(value, factor) if key in scaled else value for key, value in part.items()}
        for name, part in law["columns"].items()
    }
    return {**law, "rows": _times(law["rows"], factor), "columns": columns}


def _rescale_choice(choice: dict[str, Any], factor: float) -> dict[str, Any]:
    if "scale" in choice:
        return {**choice, "scale": choice["scale"] * factor}
    return {**choice, "epsilon": choice["epsilon"] / factor}


def _times(scale: float | None, factor: float) -> float | None:
    return None if scale is None else scale * factor


def draw_answers(
    law: dict[str, Any], cell: Cell, groups: list[Group], draws: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return for each figure its answers: one row a number, one column a group, one layer a draw."""
    if "choices" in law:
        return {cell.figures[0]: _draw_choices(law, cell, draws, rng)}
    parts = [_draw_sums(law, cell, group, draws, rng) for group in groups]
    return {figure: np.stack([part[figure] for part in parts], axis=1) for figure in cell.figures}


# ---- sums --------------------------------------------------------------------------------------------------


def _draw_sums(
    law: dict[str, Any], cell: Cell, group: Group, draws: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return the figures of one group, one row a number and one column a draw."""

    def noisy(exact: float, scale: float) -> Floats:
        return exact + _noise(law["noise"], scale, draws, rng)

    rows = None if law["rows"] is None else noisy(group[""].size, law["rows"])
    found = []
    for number in cell.columns:
        part, values = law["columns"][number.name], group[number.name]
        values = values[~np.isnan(values)]
        count = rows if part["count"] is None else noisy(values.size, part["count"])
        if count is None:
            raise AssertionError(part)
        divisor = np.maximum(count, 1)
        average = part["centre"] + noisy(float((values - part["centre"]).sum()), part["sum"]) / divisor
        if part["square"] is None:
            found.append(average)
            continue
        squares = (values - part["about"]) ** 2 - part["square_centre"]
        mean_square = part["square_centre"] + noisy(float(squares.sum()), part["square"]) / divisor
        found.append(mean_square - (average - part["about"]) ** 2)
    counts = {} if rows is None else {"count": rows[None], "count beside it": rows[None]}
    averages = {} if not found else {figure: np.stack(found) for figure in cell.figures[:1]}
    return {**counts, **averages}


def _noise(kind: str, scale: float, draws: int, rng: np.random.Generator) -> Floats:
    if kind == "gaussian":
        return np.rint(rng.normal(0, scale, draws))
    chance = -np.expm1(-1 / scale)
    return np.asarray(rng.geometric(chance, draws) - rng.geometric(chance, draws), dtype=np.float64)


# ---- choices -----------------------------------------------------------------------------------------------


def _draw_choices(law: dict[str, Any], cell: Cell, draws: int, rng: np.random.Generator) -> Floats:
    number = cell.columns[0]
    draw = _noisy_minimum if law["noise"] in ("ExponentialMin", "GumbelMin") else _between_values
    chosen = [[draw(law["noise"], each, draws, rng) for each in by_group] for by_group in law["choices"]]
    # Whole numbers are wanted, so that an answer between two is moved to the nearer one.
    return np.clip(np.rint(np.array(chosen)), number.low, number.high)


def _noisy_minimum(kind: str, choice: dict[str, Any], draws: int, rng: np.random.Generator) -> Floats:
    """OpenDP: the candidate whose score, less noise of this scale, is least."""
    scores = np.array(choice["scores"], dtype=np.float64)
    scores -= scores.min()
    # Far candidates are never chosen: what they could add is below any error that draws can show.
    near = np.flatnonzero(scores <= 60 * choice["scale"])
    make = rng.exponential if kind == "ExponentialMin" else rng.gumbel
    noise = make(scale=choice["scale"], size=(draws, near.size))
    return np.array(choice["candidates"], dtype=np.float64)[near[np.argmin(scores[near] - noise, axis=1)]]


def _between_values(kind: str, choice: dict[str, Any], draws: int, rng: np.random.Generator) -> Floats:
    """Tumult: an interval between neighbouring values by the exponential mechanism, then a point in it."""
    ends, below = np.array(choice["ends"], dtype=np.float64), np.array(choice["below"], dtype=np.float64)
    distance = np.abs(below - choice["share"] * choice["rows"])
    larger = max(choice["share"], 1 - choice["share"])
    weights = np.log(np.diff(ends)) - distance * choice["epsilon"] / (2 * larger)
    chances = np.exp(weights - weights.max())
    at = rng.choice(len(chances), size=draws, p=chances / chances.sum())
    return np.asarray(rng.uniform(ends[at], ends[at + 1]))
