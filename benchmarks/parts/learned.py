"""Measured scores of learners as a page, as a picture and as a verdict."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from parts.learning import EPSILONS, STUDIES, Study
from parts.scores import APPROXIMATE, FITS, OPEN, OURS, PLAIN, PURE, TIMES, Score

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.viz.chart import Chart

LEAST_SHOWN = -1.0
"""A picture leaves out scores below: a squared error a billion times too large would flatten the rest."""

_HEAD = """# What learners reach

Every figure here is measured, by `benchmarks/learners.py` in our environment and
`benchmarks/peers/learners.py` in that of the rivals; `make bench` runs both and writes this page from what
they kept in docs/measured. A study can be measured again alone, so not all need be of one day. Each figure
is the mean over {seeds} seeds ± its standard error, unless fewer are named beside it. Some public constants
of ours, such as how deep additive trees and decision trees go, were chosen by looking at the synthetic
table, splits of the same seeds among them; scores on it are that much too kind to us. Features lie within
[−1, 1] by fixed bounds that everyone is given; 70 % of the rows, drawn by seed, are learnt from and the
rest is tested on. Scores are accuracies; R² for regression; for components the variance of all rows that
five of them hold, of the most that five can hold; for k-means the inertia over scikit-learn's best of ten
runs, so less is better.

Ours protect one row, added or removed, at δ = 1e-6 or by pure ε. diffprivlib 0.6.6 claims pure ε, for some
models for a row that is replaced; DP-EBM (interpret 0.7.8) ε with δ = 1e-6. Both are given what is public:
bounds, the longest row, which columns hold codes. Beside boosting stands diffprivlib's random forest. A rival
has two minutes of processor for a cell; where it was not done, the seeds that were count, and their number is
shown. "!" marks ours where it lies below what is asked for, or below a rival of the same guarantee or of pure
ε, by more than two standard errors of the difference.

Adult and KDD-99 are real: 48,842 people with seven listed columns, and 70,000 connections drawn from
KDD-99's tenth, denial of service or not. Listed values become columns of zeros and ones; boosting gets codes
instead. Numbers with long tails are logarithms within public bounds.

![Scores of every system by ε](images/learners.svg)
"""


_FIT_TIMES = """## How long a fit takes

50,000 rows at ε = 1, in turns with scikit-learn's fit of the same rows: the least seconds of processor of
several turns (`benchmarks/fit_times.py`). At most three times is asked for.
"""


class Lost(NamedTuple):
    """A cell in which ours lies below."""

    mine: Score
    what: str

    def __str__(self) -> str:
        mine = self.mine
        cell = f"{mine.study}, ε = {mine.epsilon:g}, {mine.guarantee}"
        return f"{cell}: {figure(mine.mean)} ± {mine.error:.3f} {self.what}"


Cells = dict[tuple[str, str, str, float], Score]


def _by_cell(scores: Sequence[Score]) -> Cells:
    return {score.cell: score for score in scores}


def lost(scores: Sequence[Score]) -> Iterator[Lost]:
    """Cells of ours below what is asked for or below a rival, by more than two standard errors."""
    cells = _by_cell(scores)
    studies = {study.name: study for study in STUDIES}
    for mine in (each for each in scores if each.system == OURS and each.study in studies):
        study = studies[mine.study]
        if study.asked and mine.guarantee == APPROXIMATE:
            asked = study.asked[EPSILONS.index(mine.epsilon)]
            if mine.short_of(asked, study.lower):
                yield Lost(mine, f"where {asked:g} is asked for")
        for rival in _rivals(mine, cells):
            if mine.worse_than(rival, study.lower):
                yield Lost(mine, f"beside {rival.system}'s {figure(rival.mean)} ± {rival.error:.3f}")


def _rivals(mine: Score, cells: Cells) -> Iterator[Score]:
    """Those of the same guarantee; a δ may not be worse than pure ε either."""
    for other in cells.values():
        fair = other.guarantee in (mine.guarantee, PURE)
        same = (other.study, other.epsilon) == (mine.study, mine.epsilon)
        if same and fair and other.seeds and other.system not in (OURS, PLAIN):
            yield other


def compared(scores: Sequence[Score]) -> int:
    cells = _by_cell(scores)
    return sum(len(list(_rivals(mine, cells))) for mine in scores if mine.system == OURS)


def verdict(scores: Sequence[Score]) -> str:
    found = [str(each) for each in lost(scores)]
    head = f"of {compared(scores)} comparisons with rivals, and the scores asked for, {len(found)} are lost"
    return "\n".join([head, *(f"  {each}" for each in found)])


# ---- the page ----------------------------------------------------------------------------------------------


def figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0e}"


def page(scores: Sequence[Score]) -> str:
    seeds = max(each.seeds for each in scores)
    known = {each.study for each in scores}
    sections = [_section(study, scores) for study in STUDIES if study.name in known]
    return "\n".join(
        [_HEAD.format(seeds=seeds), *sections, _below(scores), _notes(scores), _durations(), _large()]
    )


def _section(study: Study, scores: Sequence[Score]) -> str:
    cells = [each for each in scores if each.study == study.name]
    marked = {each.mine.cell for each in lost(scores)}
    systems = dict.fromkeys((each.system, each.guarantee) for each in cells if each.guarantee != OPEN)
    plain = next((each for each in cells if each.guarantee == OPEN), None)
    rows = [_row(each, cells, marked, plain) for each in systems]
    title = f"## {study.name[0].upper()}{study.name[1:]}\n"
    without = f"\nWithout noise {figure(plain.mean)}, in {_seconds(plain)}.\n" if plain else ""
    head = ["", *(f"ε = {each:g}" for each in EPSILONS), "CPU of a fit at ε = 1 (× scikit-learn's)"]
    least = [["asked for" + (" at most" if study.lower else ""), *(f"{each:g}" for each in study.asked), ""]]
    return title + without + _table(head, [*(least if study.asked else []), *rows])


def _row(system: tuple[str, str], cells: Sequence[Score], marked: set[Any], plain: Score | None) -> list[str]:
    mine = {each.epsilon: each for each in cells if (each.system, each.guarantee) == system}
    shown = [_cell(mine.get(epsilon), marked) for epsilon in EPSILONS]
    return [", ".join(system), *shown, _seconds(mine.get(1.0)) + _times(mine.get(1.0), plain)]


def _times(score: Score | None, plain: Score | None) -> str:
    """As a multiple of scikit-learn's own."""
    if score is None or plain is None or math.isnan(score.seconds) or not plain.seconds:
        return ""
    return f" (×{score.seconds / plain.seconds:.1f})"


def _cell(score: Score | None, marked: set[Any]) -> str:
    if score is None or not score.seeds:
        return "not done" if score else "–"
    few = f" ({score.seeds} seeds)" if score.note else ""
    return f"{figure(score.mean)} ± {figure(score.error)}{few}{' !' if score.cell in marked else ''}"


def _seconds(score: Score | None) -> str:
    if score is None or math.isnan(score.seconds):
        return "–"
    return f"{score.seconds * 1e3:,.0f} ms" if score.seconds < 10 else f"{score.seconds:,.0f} s"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _below(scores: Sequence[Score]) -> str:
    found = [f"- {each}" for each in lost(scores)] or ["None."]
    about = f"Of {compared(scores)} comparisons with rivals, and all that is asked for:\n"
    return "\n".join(["## Cells that are lost\n", about, *found, ""])


def _notes(scores: Sequence[Score]) -> str:
    noted = [
        f"- {each.study}, {each.system}, ε = {each.epsilon:g}: {each.note}" for each in scores if each.note
    ]
    return "\n".join(["## Cells that were not done\n", *(noted or ["None."]), ""])


def _large() -> str:
    """Fits behind the curator, as `benchmarks/fits.py` found them."""
    found = json.loads(FITS.read_text(encoding="utf-8")) if FITS.exists() else {}
    here, there = found.get("duckdb"), found.get("spark")
    parts = ["## Behind the curator, on many rows\n"]
    if here:
        parts.append(
            f"{here['rows']:,} rows of twenty columns by `s.fit` on DuckDB with {here['memory']} GB, beside "
            "the sums that a model without noise needs, in plain SQL (`benchmarks/fits.py`). Where the "
            "machine had other work, processor time is the figure to trust.\n"
            + _table(
                ["", "plain: CPU s, clock s, MB", "ours: CPU s, clock s, MB", "CPU ×", "scans"],
                [_fit(name, **each) for name, each in here["models"].items()],
            )
        )
    if there:
        said = "; ".join(f"{name}: {text}" for name, text in there["models"].items())
        parts.append(f"The same questions on Spark, {there['rows']:,} rows: {said}.\n")
    return "\n".join(parts if found else [])


def _durations() -> str:
    """Fits on own arrays, as `benchmarks/fit_times.py` found them."""
    found = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    parts = [_FIT_TIMES]
    for threads, models in found.items():
        head = ["one thread" if threads == "1" else "all threads", PLAIN, APPROXIMATE, PURE]
        parts.append(_table(head, [_duration(name, costs) for name, costs in models.items()]))
    return "\n".join(parts if found else [])


def _duration(name: str, costs: dict[str, list[float]]) -> list[str]:
    plain = costs[PLAIN][0]
    ours = [f"{costs[each][0] * 1e3:.0f} ms (×{costs[each][0] / plain:.1f})" for each in (APPROXIMATE, PURE)]
    return [name, f"{plain * 1e3:.0f} ms", *ours]


def _fit(name: str, ours: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    if "refused" in ours or "refused" in plain:
        return [name, plain.get("refused", ""), ours.get("refused", ""), "", ""]
    costs = [f"{each['cpu']:.1f}, {each['wall']:.1f}, {each['peak']:.0f}" for each in (plain, ours)]
    return [name, *costs, f"{ours['cpu'] / plain['cpu']:.2f}", str(ours["scans"])]


# ---- the picture -------------------------------------------------------------------------------------------


def picture(scores: Sequence[Score]) -> Chart:
    """One panel a study, one line a system and guarantee, with two standard errors to either side."""
    from sfumato.viz.chart import make_chart

    names = [study.name for study in STUDIES]
    points = [_point(each) for each in scores if each.study in names and _drawn(each)]
    place = {
        "field": "epsilon",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [0.09, 3.4], "nice": False},
        "axis": {"values": list(EPSILONS)},
        "title": "ε",
    }
    colour = {
        "field": "system",
        "type": "nominal",
        "title": None,
        "legend": {"orient": "top"},
        "sort": [f"{OURS}, {APPROXIMATE}", f"{OURS}, {PURE}"],
    }
    score = {"type": "quantitative", "title": "score", "scale": {"zero": False}}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "line", "point": True}, "encoding": {"y": {"field": "score", **score}}},
        {"mark": "rule", "encoding": {"y": {"field": "low", **score}, "y2": {"field": "high"}}},
    ]
    body = {
        "data": {"values": points},
        "facet": {"field": "study", "type": "nominal", "title": None, "sort": names},
        "columns": 4,
        "spec": {
            "width": 200,
            "height": 150,
            "encoding": {"x": place, "color": colour},
            "layer": layers,
        },
        "resolve": {"scale": {"y": "independent"}},
    }
    return make_chart(body, title="What learners reach, by ε; two standard errors to either side")


def _drawn(score: Score) -> bool:
    return score.guarantee != OPEN and score.seeds > 0 and score.mean > LEAST_SHOWN


def _point(score: Score) -> dict[str, Any]:
    return {
        "study": score.study,
        "system": f"{score.system}, {score.guarantee}",
        "epsilon": score.epsilon,
        "score": score.mean,
        "low": score.mean - 2 * score.error,
        "high": score.mean + 2 * score.error,
    }
