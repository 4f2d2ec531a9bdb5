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
"""The picture leaves out scores below this: an R² of minus a billion would flatten the rest."""

_HEAD = """# Measured accuracy of learners

Every figure on this page is measured: ours by `benchmarks/learners.py`, those of other libraries by
`benchmarks/peers/learners.py` in an environment of their own. `make bench` runs both, stores the scores in
docs/measured and writes this page from them. A study can be measured again on its own, so the figures may be
from different days.

Boosting at its defaults, and logistic regression with δ, have changed since these scores were taken, and have
not been measured again here: [Learners on unseen tables](learn-unseen.md) has them as they are now.

Each figure is the mean over {seeds} seeds ± its standard error; if fewer seeds were done, their number is
shown. In each seed, 70 % of the rows are used for training and the rest for testing. Features lie within
[−1, 1], and these bounds are given to every library. The score is the accuracy for classification and R² for
regression. For PCA it is the variance of all rows that five components explain, divided by the most that five
can explain. For k-means it is the inertia divided by that of scikit-learn's best of ten runs, so lower is
better.

Some of our public constants, such as the depth of additive trees and of decision trees, were chosen by
looking at the synthetic table, including splits with the same seeds. Our scores on that table are therefore
somewhat optimistic.

sfumato protects one row, added or removed, at δ = 1e-6 or with pure ε. diffprivlib 0.6.6 claims pure ε, for
some models only against replacing a row. DP-EBM (interpret 0.7.8) claims ε with δ = 1e-6. Both are given what
is public: the bounds, the largest norm of a row, and which columns hold codes. Boosting is compared with
diffprivlib's random forest. Another library may use two minutes of processor time for a cell; if that is not
enough, the seeds that were done count. "!" marks a score of ours that is worse than the required score, or
than that of a library with the same guarantee or with pure ε, by more than two standard errors of the
difference.

Adult and KDD-99 are real data: 48,842 people with seven listed columns, and 70,000 connections drawn from the
10 % sample of KDD-99, labelled as denial of service or not. Listed values are one-hot encoded, but boosting
gets them as codes. Numbers with long tails are replaced by their logarithms within public bounds.

![Scores of every system by ε](images/learners.svg)
"""


_FIT_TIMES = """## How long a fit takes

`benchmarks/fit_times.py` fits 50,000 rows at ε = 1, alternating with scikit-learn's fit of the same rows, and
reports the least processor time of several turns. At most three times scikit-learn's time is required.
"""


class Lost(NamedTuple):
    """A score of ours that is worse than the required one or than another library's."""

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
    """Yield our scores that are worse than required, or than others', by over two standard errors."""
    cells = _by_cell(scores)
    studies = {study.name: study for study in STUDIES}
    for mine in (each for each in scores if each.system == OURS and each.study in studies):
        study = studies[mine.study]
        if study.asked and mine.guarantee == APPROXIMATE:
            asked = study.asked[EPSILONS.index(mine.epsilon)]
            if mine.short_of(asked, study.lower):
                yield Lost(mine, f"(required: {asked:g})")
        for peer in _peers(mine, cells):
            if mine.worse_than(peer, study.lower):
                yield Lost(mine, f"({peer.system}: {figure(peer.mean)} ± {peer.error:.3f})")


def _peers(mine: Score, cells: Cells) -> Iterator[Score]:
    """Yield other libraries' scores with the same guarantee; pure ε is compared with ours at δ too."""
    for other in cells.values():
        fair = other.guarantee in (mine.guarantee, PURE)
        same = (other.study, other.epsilon) == (mine.study, mine.epsilon)
        if same and fair and other.seeds and other.system not in (OURS, PLAIN):
            yield other


def compared(scores: Sequence[Score]) -> int:
    cells = _by_cell(scores)
    return sum(len(list(_peers(mine, cells))) for mine in scores if mine.system == OURS)


def verdict(scores: Sequence[Score]) -> str:
    found = [str(each) for each in lost(scores)]
    head = f"{len(found)} scores worse than required or than others', in {compared(scores)} comparisons"
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
    least = [["required" + (", at most" if study.lower else ""), *(f"{each:g}" for each in study.asked), ""]]
    return title + without + _table(head, [*(least if study.asked else []), *rows])


def _row(system: tuple[str, str], cells: Sequence[Score], marked: set[Any], plain: Score | None) -> list[str]:
    mine = {each.epsilon: each for each in cells if (each.system, each.guarantee) == system}
    shown = [_cell(mine.get(epsilon), marked) for epsilon in EPSILONS]
    return [", ".join(system), *shown, _seconds(mine.get(1.0)) + _times(mine.get(1.0), plain)]


def _times(score: Score | None, plain: Score | None) -> str:
    """Return the time as a multiple of scikit-learn's."""
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
    about = f"Checked: {compared(scores)} comparisons with other libraries, and every required score.\n"
    return "\n".join(["## Scores worse than required or than another library's\n", about, *found, ""])


def _notes(scores: Sequence[Score]) -> str:
    noted = [
        f"- {each.study}, {each.system}, ε = {each.epsilon:g}: {each.note}" for each in scores if each.note
    ]
    return "\n".join(["## Cells that were not finished\n", *(noted or ["None."]), ""])


def _large() -> str:
    """Write the section on fits behind the curator from what `benchmarks/fits.py` measured."""
    found = json.loads(FITS.read_text(encoding="utf-8")) if FITS.exists() else {}
    here, there = found.get("duckdb"), found.get("spark")
    parts = ["## Behind the curator, on many rows\n"]
    if here:
        parts.append(
            f"`benchmarks/fits.py` runs `s.fit` on {here['rows']:,} rows of twenty columns, on DuckDB with "
            f"{here['memory']} GB, and compares it with plain SQL for the sums that a model without noise "
            "needs. If the machine was busy with other work, trust the processor time.\n"
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
    """Write the section on fit times from what `benchmarks/fit_times.py` measured."""
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
    """Draw one panel per study, one line per system and guarantee, with ± two standard errors."""
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
    return make_chart(body, title="Measured accuracy of learners by ε, ± two standard errors")


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
