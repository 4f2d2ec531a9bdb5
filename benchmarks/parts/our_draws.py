"""Our own answers to the questions of `usefulness.py`, many to each.

A question is planned as the door plans it, and the engine reads its exact integers once. Each draw is then a
cell more of one long answer: the same steps add noise to it, and the same estimators read it. One whole
release is made first, so that what is measured is what people get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from sfumato.curator.answers.answer import ChosenPlaces, NoisyAnswer, noise_laws
from sfumato.curator.answers.post_processing import compute_figure
from sfumato.curator.answers.shaped_answer import read_shape
from sfumato.curator.plan.steps import Choices, Sums
from sfumato.noise.histograms import Histograms

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from parts.studies import Cell, Study
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.engines.program import Engine
    from sfumato.lab.query import Query

    Floats = NDArray[np.float64]

LARGE = sf.Budget(epsilon=1_000_000)
LARGE_WITH_DELTA = sf.Budget(epsilon=1_000_000, delta=0.5)


def register(folder: Path, study: Study, path: Path, keys: list[str], budget: sf.Budget) -> sf.Lab:
    """Return a lab with the table of a study. Only nullable columns may have missing values."""
    lab = sf.create(folder)
    columns: dict[str, Any] = {
        each.name: sf.between(
            each.low, each.high, step=1, missing=None if each in study.nullable_numbers else each.low
        )
        for each in study.columns
    }
    columns[study.key] = sf.one_of(*keys)
    unit = sf.ROW if study.unit is None else sf.Unit(study.unit, max_rows=study.max_rows)
    lab.register("t", path, unit=unit, columns=columns, budget=budget)
    return lab


def write_sql(cell: Cell) -> str:
    """Return the question as an analyst types it."""
    names = [number.name for number in cell.columns]
    if cell.shares:
        shown = [f"QUANTILE({names[0]}, {share}) AS x{at}" for at, share in enumerate(cell.shares)]
    else:
        of = "VAR_POP" if "variance" in cell.kind else "AVG"
        shown = [f"{of}({name}) AS x{at}" for at, name in enumerate(names)]
    shown += ["COUNT(*) AS n"] if cell.counts_rows else []
    by = (f"{cell.key}, ", f" GROUP BY {cell.key}") if cell.key else ("", "")
    return f"SELECT {by[0]}{', '.join(shown)} FROM t{by[1]}"


def ask(lab: sf.Lab, cell: Cell) -> tuple[Query, QuestionPlan]:
    """Return a question and its plan, after one whole release at the door."""
    spending: Any = {"epsilon": cell.epsilon, **({"delta": cell.delta} if cell.delta else {})}
    query = lab.session().sql(write_sql(cell))
    plan = query.plan(spending)
    if query.release(**spending).request != plan.request:
        raise AssertionError(f"another request was released: {write_sql(cell)}")
    return query, plan


def draw_answers(plan: QuestionPlan, engine: Engine, cell: Cell, draws: int) -> dict[str, Floats]:
    """Return for each figure its answers: one row a number, one column a group, one layer a draw."""
    noisy = draw_noisy(plan, engine, draws)
    groups = max(1, len(cell.keys))
    columns = {
        # A group for missing keys, which no row is in, comes after the others.
        name: compute_figure(plan, each, noisy).astype(np.float64).reshape(draws, -1)[:, :groups].T
        for name, each in plan.question.figures.items()
    }
    numbers = [column for name, column in columns.items() if name != "n"]
    counts = {"count": columns["n"][None], "count beside it": columns["n"][None]} if "n" in columns else {}
    shown = {**counts, **({cell.figures[0]: np.stack(numbers)} if numbers else {})}
    return {figure: shown[figure] for figure in cell.figures}


def draw_noisy(plan: QuestionPlan, engine: Engine, draws: int) -> NoisyAnswer:
    """Return one answer with as many times the cells of the plan as there are draws."""
    sums, chosen = np.zeros((0, 0)), []
    cells = plan.resolved.cells * draws
    for step in plan.steps:
        exact = engine.run(step.program)
        match step:
            case Sums():
                released = step.release(np.tile(exact, draws))
                sums = _read(plan, released, cells)
            case Choices():
                chosen.append(_choose(step, exact, draws))
            case _:
                raise AssertionError(step)
    return NoisyAnswer(sums, noise_laws(plan), tuple(chosen), None, cells)


def _read(plan: QuestionPlan, released: list[Any], cells: int) -> NDArray[Any]:
    return read_shape(plan, released, cells) if plan.shaped else np.array(released, dtype=np.float64)


def _choose(step: Choices, exact: Any, draws: int) -> ChosenPlaces:
    """Return places chosen in every draw. Counts around them, which intervals need, are left out."""
    cells, values, counts = exact.triplets()
    size, groups = cells.size, step.program.cells
    again = np.repeat(np.arange(draws) * groups, size)
    table = Histograms.from_triplets(
        np.tile(cells, draws) + again,
        np.tile(values, draws),
        np.tile(counts, draws),
        groups=groups * draws,
        cells=step.size,
    )
    places = step.mechanism.release_groups(table, rows=step.rows).reshape(-1, groups * draws)
    return ChosenPlaces(places, (step.mechanism,), step.size)
