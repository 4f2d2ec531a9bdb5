"""`sfumato demo`: a generated clinic from registration to an attack, with one sentence for each step."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sfumato as sf
from sfumato.cli import clinic, histogram
from sfumato.cli.output import draw_bars, print_heading, print_styled, print_text
from sfumato.errors import BudgetError, UsageError
from sfumato.errors.numbers import format_decimal, format_number, format_share

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.lab.session import Session
    from sfumato.viz import Chart

QUERY = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward"
EPSILON = 0.5
FEATURES = ("age", "cost")
SURGICAL = ("B", "C", "E", "F")
"""Wards whose visits the model tells from the others."""

EXPERIMENT = (
    "ε",
    "average error",
    "expected, 2r/(1−r²)",
    "difference in standard errors",
    "maximum error",
    "average in the talk",
    "maximum in the talk",
)
"""Header of the table of the histogram experiment."""


def run(output: str) -> Path:
    """Print every step, and return the folder of the lab, which stays for the pages."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a pipe would show nothing until the end
    pictures = Path(output)
    pictures.mkdir(parents=True, exist_ok=True)
    lab = _register(_find_free(pictures / "clinic"))
    session = lab.session("ada")
    _ask(session, pictures)
    _refuse(session)
    _train(lab.session())
    _synthesize(lab)
    _attack()
    _count_cells(pictures)
    return lab.folder


def _find_free(folder: Path) -> Path:
    """Return a folder that does not exist yet: an earlier demo keeps its lab."""
    names = (folder if at == 1 else folder.with_name(f"{folder.name}-{at}") for at in count(1))
    return next(each for each in names if not each.exists())


def _register(folder: Path) -> sf.Lab:
    print_heading("1. Register a table")
    print_text(
        f"The steward registers {clinic.VISITS:,} visits of {clinic.PATIENTS:,} generated patients, protects "
        "each patient with\nall visits, and sets a budget, because every answer reveals a little."
    )
    lab = create_clinic(folder, make_visits())
    print_text(lab.budget)
    return lab


def make_visits(seed: int = 7) -> pa.Table:
    """Return visits with a column that says whether the ward is surgical."""
    import pyarrow as pa

    visits = clinic.visits(seed=seed)
    surgical = np.isin(visits["ward"].to_numpy(), SURGICAL).astype(np.int64)
    return visits.append_column("surgical", pa.array(surgical))


def create_clinic(folder: Path, visits: pa.Table) -> sf.Lab:
    """Return a lab with the visits and an analyst, as the demo uses it."""
    lab = sf.create(folder)
    lab.register(
        "visits",
        visits,
        unit=sf.Unit("patient_id", max_rows=20),
        columns={
            "age": sf.between(0, 110),
            "cost": sf.between(0, 5000),
            "ward": sf.one_of(*clinic.WARDS),
            "readmitted": sf.one_of(0, 1),
            "surgical": sf.one_of(0, 1),
        },
        budget=sf.Budget(epsilon=3, delta=1e-7),
    )
    lab.grant("ada", epsilon=1)
    return lab


def _ask(session: Session, pictures: Path) -> None:
    print_heading("2. Quote")
    print_text("The analyst Ada asks for the price and the expected error first; this charges nothing.")
    print_styled(QUERY, "dim")
    query = session.question(QUERY)
    print_text(query.quote(epsilon=EPSILON, given={"n": 3000}))
    print_heading("3. Release")
    print_text("sfumato charges Ada's quota before it reads a row, and adds noise to hide each patient.")
    release = query.release(epsilon=EPSILON)
    print_text(release)
    answer = release.interval().to_pydict()
    numbers = release.to_arrow().to_pydict()
    wards = [(ward, n) for ward, n in zip(numbers["ward"], numbers["n"], strict=True) if ward is not None]
    half = (answer["n_high"][0] - answer["n_low"][0]) / 2
    print_text("")
    draw_bars([f"ward {ward}" for ward, _ in wards], [n for _, n in wards], half)
    _draw(release.plot(), pictures / "wards.png")


def _refuse(session: Session) -> None:
    print_heading("4. A refusal")
    print_text("Ada's next query costs more than remains, so sfumato refuses it; nothing is read or charged.")
    try:
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE age < 18").release(epsilon=0.8)
    except BudgetError as refusal:
        print_styled(refusal, "red")
    print_heading("5. The same question again")
    print_text("Asking again returns the same answer, because fresh noise would reveal more each time.")
    print_text(session.question(QUERY).release(epsilon=EPSILON).receipt.sentence())


def _train(session: Session) -> None:
    print_heading("6. A model")
    print_text(
        "The steward trains a private decision tree: was a visit, by age and cost, to a surgical ward?"
    )
    from sklearn.tree import DecisionTreeClassifier

    tree = sf.learn.DecisionTree(epsilon=EPSILON)
    private = session.fit(tree, table="visits", features=list(FEATURES), target="surgical")
    seen, unseen = _split(make_visits()), _split(make_visits(seed=8))
    plain = DecisionTreeClassifier(max_depth=6).fit(*seen)
    usual = max(np.bincount(unseen[1])) / len(unseen[1])
    rows = (
        (f"sfumato, ε = {EPSILON}", private.score(*unseen)),
        ("scikit-learn, not private", plain.score(*unseen)),
        ("always the more frequent class", usual),
    )
    _print_columns(
        [("accuracy on other patients", ""), *((name, format_share(share)) for name, share in rows)]
    )


def _split(visits: pa.Table) -> tuple[pa.Table, Any]:
    """Return the features and the target."""
    return visits.select(FEATURES), visits["surgical"].to_numpy()


def _synthesize(lab: sf.Lab) -> None:
    print_heading("7. A synthetic table")
    print_text(
        "The steward publishes 5,000 generated visits that anyone may read, as noisy statistics imply."
    )
    table = lab.publish(
        sf.synth.Marginals(epsilon=EPSILON),
        table="visits",
        columns=["age", "ward", "readmitted"],
        rows=5000,
    )
    real, synthetic = _describe(make_visits()), _describe(table.read())
    rows = [
        (
            name,
            format_decimal(real[name], 1),
            format_decimal(synthetic[name], 1),
            format_decimal(abs(synthetic[name] - real[name]), 1),
        )
        for name in real
    ]
    _print_columns([("", "real", "synthetic", "error"), *rows])


def _describe(visits: pa.Table) -> dict[str, float]:
    """Return some statistics that people would ask of the visits."""
    age, readmitted = visits["age"].to_numpy(), visits["readmitted"].to_numpy()
    return {
        "mean age": float(np.nanmean(age)),
        "% in ward A": 100 * float(np.mean(np.array(visits["ward"].to_pylist()) == "A")),
        "% readmitted, 65 and older": 100 * float(np.nanmean(readmitted[age >= 65])),
    }


def _attack() -> None:
    print_heading("8. An attack")
    print_text(
        "An attacker asks for a total with and without one person; the difference is that person's salary."
    )
    from sfumato.attacks import differencing

    report = differencing(epsilon=1, trials=500)
    rows = [(each.against, format_share(each.success)) for each in report.outcomes]
    _print_columns(
        [
            ("salary found, to a tenth of its range", ""),
            *rows,
            ("a guess", format_share(report.baseline)),
        ]
    )


def _count_cells(pictures: Path) -> None:
    print_heading(f"9. A histogram of {histogram.CELLS:,} cells")
    print_text(
        "Noise per cell does not grow with the number of cells; Dwork and McSherry's talk shows the same."
    )
    found = histogram.run()
    rows = [errors.row() for errors in found.errors]
    cells = [
        (
            format_number(row["epsilon"], 6),
            format_decimal(row["average"], 2),
            f"{row['maximum']:,}",
            f"{row['talk_average']:,}",
            format_decimal(row["talk_maximum"], 0),
        )
        for row in rows
    ]
    _print_columns([("ε", "average error", "maximum", "talk: average", "maximum"), *cells])
    draw_experiment(found, rows, pictures)
    print_text(f"Charts of steps 3 and 9 are in {pictures}.")


def _print_columns(rows: list[tuple[str, ...]]) -> None:
    """Print rows of text, the first column aligned to the left and the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print_text("  ".join(["  " + first.ljust(widths[0]), *cells]).rstrip())


def show_errors(row: dict[str, float]) -> tuple[str, ...]:
    """Return the errors at one ε as the cells of a table."""
    apart = (row["average"] - row["theory"]) / row["standard_error"]
    return (
        format_number(row["epsilon"], 6),
        format_decimal(row["average"], 3),
        format_decimal(row["theory"], 3),
        f"{'+' if apart > 0 else ''}{format_decimal(apart, 1)}",
        f"{row['maximum']:,}",
        f"{row['talk_average']:,}",
        format_decimal(row["talk_maximum"], 0),
    )


def draw_experiment(found: histogram.Experiment, rows: list[dict[str, float]], pictures: Path) -> None:
    """Save the charts of the experiment."""
    _draw(sf.viz.histogram_errors(rows), pictures / "histogram-errors.png")
    x, y = histogram.cell_places()
    panels = {"true counts": found.truth} | {
        f"ε = {format_number(each.epsilon)}": each.noisy for each in found.errors[:3]
    }
    _draw(sf.viz.heatmap(x, y, panels, title="Points per cell, 64,909 cells"), pictures / "histogram.png")


def _draw(chart: Chart, file: Path) -> None:
    """Save a chart. Without the plot extra, print how to install it."""
    try:
        chart.save(file)
    except UsageError as missing:
        print_styled(missing, "yellow")
