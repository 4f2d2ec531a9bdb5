"""`sfumato demo`: questions, quotes, answers and budgets from end to end, on a generated clinic."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import sfumato as sf
from sfumato.cli import clinic, histogram
from sfumato.cli.output import print_heading, print_styled, print_text, show_table
from sfumato.errors import BudgetError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.lab.session import Session
    from sfumato.viz import Chart

QUESTIONS = (
    (
        "How many visits by older people does each ward have, and what does a visit cost?",
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward",
        0.5,
        3_000,
        None,
    ),
    (
        "How often are patients readmitted?",
        "SELECT AVG(readmitted) AS readmitted FROM visits WHERE age BETWEEN 40 AND 90",
        0.3,
        20_000,
        None,
    ),
    (
        "What is the total cost of each ward?",
        "SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward",
        0.15,
        None,
        0.05,
    ),
)
"""The question in words and in SQL, the ε to spend, assumed rows per group for averages, and ε for tuning."""

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
    """Show the tour: questions, the end of a quota, a model, a synthetic table, and the histogram experiment.

    Returns the folder of the lab, which stays for the pages.
    """
    pictures = Path(output)
    pictures.mkdir(parents=True, exist_ok=True)
    lab = _clinic(_find_free(pictures / "clinic"))
    session = lab.session("ada")
    _questions(session, pictures)
    _end_of_budget(session)
    _learn_and_synthesise(lab)
    _work_around(lab)
    _experiment(pictures)
    print_text(f"\nThe charts are in {pictures}, and the lab is in {lab.folder}.")
    return lab.folder


def _find_free(folder: Path) -> Path:
    """Return a folder that is not there yet: an earlier tour keeps its lab."""
    names = (folder if at == 1 else folder.with_name(f"{folder.name}-{at}") for at in count(1))
    return next(each for each in names if not each.exists())


def _clinic(folder: Path) -> sf.Lab:
    print_heading("A clinic")
    visits = clinic.visits()
    lab = create_clinic(folder, visits)
    print_text(
        f"{clinic.PATIENTS:,} patients with {visits.num_rows:,} visits; each is protected with all visits."
    )
    print_text(lab.table("visits").chosen[0].describe("patient_id"))
    print_text(lab.budget)
    return lab


def create_clinic(folder: Path, visits: pa.Table) -> sf.Lab:
    """Return a lab with the visits and an analyst, as the tour uses it."""
    lab = sf.create(folder)
    lab.register(
        "visits",
        visits,
        unit=sf.Unit("patient_id", max_rows=sf.choose(epsilon=0.05, keep=0.99)),
        columns={
            "age": sf.between(0, 110),
            "cost": sf.between(0, 5000),
            "ward": sf.one_of(*clinic.WARDS),
            "readmitted": sf.one_of(0, 1),
        },
        budget=sf.Budget(epsilon=2, delta=1e-7),
    )
    lab.grant("ada", epsilon=1)
    return lab


def _learn_and_synthesise(lab: sf.Lab) -> None:
    """Train a model and publish a synthetic table, as the steward, if the extra for it is installed."""
    print_heading("A model and a synthetic table")
    if find_spec("sklearn") is None:
        print_text("They need scikit-learn: pip install 'sfumato[learn,synth]'")
        return
    session = lab.session()
    model = session.fit(
        sf.learn.LogisticRegression(epsilon=0.4),
        table="visits",
        features=["age", "cost"],
        target="readmitted",
    )
    print_styled("logistic regression: is a patient readmitted?", "bold")
    print_text(model.guarantee_)
    table = lab.publish(
        sf.synth.Marginals(epsilon=0.4), table="visits", columns=["age", "ward", "readmitted"], rows=2000
    )
    print_styled("\na synthetic table that everyone may read", "bold")
    print_text(table.heading)
    print_text(table.read().slice(0, 3).to_pylist())


def _work_around(lab: sf.Lab) -> None:
    """Create a project, and let its member ask for more budget: both are on the pages."""
    print_heading("A project, and a request for more budget")
    purpose = "Why patients come back within a month."
    print_text(lab.create_project("readmissions", purpose=purpose, epsilon=0.2, members=["ada", "ben"]))
    print_text(lab.session("ada").request(epsilon=0.5, reason="My quota is used up, and one ward is open."))


def _questions(session: Session, pictures: Path) -> None:
    for words, sql, epsilon, rows, tuning in QUESTIONS:
        print_heading(words)
        query = session.question(sql)
        print_styled(sql, "dim")
        print_styled("quote  (reads no data, spends nothing)", "bold")
        print_text(query.quote(epsilon=epsilon, given={"n": rows} if rows else None))
        if tuning is not None:
            print_styled("tuned  (picks how much of one patient counts, privately)", "bold")
            query = query.tune(epsilon=tuning, for_epsilon=epsilon)
            print_text(query.quote(epsilon=epsilon))
        release = query.release(epsilon=epsilon)
        print_styled("release", "bold")
        print_text(release)
        print_text(f"receipt: entry {release.receipt.entry}, chain head {release.receipt.head[:16]}…")
        if sql == QUESTIONS[0][1]:
            _draw(release.plot(), pictures / "wards.png")
    print_styled("\nleft", "bold")
    print_text(session.budget)


def _end_of_budget(session: Session) -> None:
    print_heading("The quota is used up")
    try:
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE age < 18").release(epsilon=0.1)
    except BudgetError as refusal:
        print_styled(refusal, "red")
    print_heading("… but asking the first question again is free")
    _, sql, epsilon, *_ = QUESTIONS[0]
    print_text(session.sql(sql).release(epsilon=epsilon))


def _experiment(pictures: Path) -> None:
    print_heading(f"The histogram experiment: {histogram.CELLS:,} cells")
    found = histogram.run()
    rows = [errors.row() for errors in found.errors]
    shown = [show_errors(row) for row in rows]
    show_table(EXPERIMENT, shown, title=f"{found.source}: errors of the noisy cells")
    draw_experiment(found, rows, pictures)


def show_errors(row: dict[str, float]) -> tuple[str, ...]:
    """Return the errors at one ε as the cells of a table."""
    apart = (row["average"] - row["theory"]) / row["standard_error"]
    return (
        f"{row['epsilon']:g}",
        f"{row['average']:,.3f}",
        f"{row['theory']:,.3f}",
        f"{apart:+.1f}",
        f"{row['maximum']:,}",
        f"{row['talk_average']:,}",
        f"{row['talk_maximum']:,.0f}",
    )


def draw_experiment(found: histogram.Experiment, rows: list[dict[str, float]], pictures: Path) -> None:
    """Save the charts of the experiment."""
    _draw(sf.viz.histogram_errors(rows), pictures / "histogram-errors.png")
    x, y = histogram.cell_places()
    panels = {"true counts": found.truth} | {f"ε = {each.epsilon:g}": each.noisy for each in found.errors[:3]}
    _draw(sf.viz.heatmap(x, y, panels, title="Points per cell, 64,909 cells"), pictures / "histogram.png")


def _draw(chart: Chart, file: Path) -> None:
    """Save a chart. Without the plot extra, say so and go on."""
    try:
        chart.save(file)
    except UsageError as missing:
        print_styled(missing, "yellow")
