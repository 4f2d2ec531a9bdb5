"""Measured accuracy of private networks as a page, as a picture and as a verdict."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from parts.deep_scores import MOST_SECONDS, STUDIES, find_required, find_scores, read

if TYPE_CHECKING:
    from sfumato.viz.chart import Chart

_HEAD = """# Measured accuracy of networks

Every figure on this page is measured by `benchmarks/deep_accuracy.py`, which `make bench` runs; it stores
the scores in docs/measured and writes this page from them. A study can be measured again on its own, so the
figures may be from different days.

A score is the accuracy on rows that the network has not seen, at δ = 1e-5 for adding or removing one row;
the number of rows is public. MNIST and Fashion-MNIST have 60,000 images to learn from and a test file of
10,000. Adult is split 70/30 by seed. The processor time of a run, on one thread, includes features and the
test.

**Nothing was chosen on what is reported.** Ready networks (`sf.deep.Classifier`) run at their defaults,
which follow from the shape of rows, their number and ε. The constants behind them were chosen with the last
10,000 images of the training files held out, and on tables of `benchmarks/parts` that are not reported here:
generated ones of `learning.py`, and those for development and known before of `unseen_tables.py`;
test files and Adult were not looked at. Boosting on Adult learns from the same rows, as zeros and ones like
the network and as codes, and the better score counts.

"Fashion → MNIST" trains a small convolutional network without privacy on Fashion-MNIST, which stands for
public images, gives it a new last layer, and then trains privately on MNIST: the last layer alone, or
[adapters](deep.md#a-module-that-was-trained-before) beside the others too. "From scratch" is the same
network without the public images.

![Accuracy of every run, and what is required](images/deep-accuracy.svg)

| data | what is trained | ε | median | of runs | required | processor time of a run |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page of all that was measured."""
    rows = []
    for study in STUDIES:
        found = read().get(study.name, {})
        if not found:
            rows.append(f"| {study.title} | {study.system} | {study.epsilon:g} | not measured | | | |")
            continue
        scores, seconds = zip(*found.values(), strict=True)
        required = find_required(study)
        rows.append(
            f"| {study.title} | {study.system} | {study.epsilon:g} | {100 * median(scores):.2f} % | "
            f"{', '.join(f'{100 * each:.2f}' for each in sorted(scores))} | "
            f"{'' if required is None else f'{100 * required:.1f} %'} | {max(seconds):.0f} s at most |"
        )
    return _HEAD + "\n".join(rows) + "\n"


def list_short() -> list[str]:
    """Return a sentence for each study whose median is below what is required, or that took too long."""
    found = []
    for study in STUDIES:
        scores, required = find_scores(study), find_required(study)
        if scores and required is not None and median(scores) < required:
            found.append(f"{study.name}: {median(scores):.4f} is below {required:.4f}.")
        if any(seconds > MOST_SECONDS for _, seconds in read().get(study.name, {}).values()):
            found.append(f"{study.name}: a run took more than {MOST_SECONDS} s.")
    return found


def picture() -> Chart:
    """Draw the accuracy of every run, with a mark at what is required."""
    from sfumato.viz.chart import make_chart

    points = [
        {"study": study.name, "accuracy": score, "required": find_required(study)}
        for study in STUDIES
        for score in find_scores(study)
    ]
    order = [study.name for study in STUDIES]
    side = {"field": "study", "type": "nominal", "title": None, "sort": order, "axis": {"labelLimit": 320}}
    scale = {"zero": False, "padding": 12}
    along = {"type": "quantitative", "title": "test accuracy", "scale": scale}
    body = {
        "data": {"values": points},
        "width": 420,
        "height": 300,
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.8},
                "encoding": {"y": side, "x": {"field": "accuracy", **along}},
            },
            {
                "mark": {"type": "tick", "thickness": 3, "color": "#c0392b"},
                "encoding": {"y": side, "x": {"field": "required", **along}},
            },
        ],
    }
    return make_chart(body, title="Accuracy of every run (dots) and what is required (ticks)")
