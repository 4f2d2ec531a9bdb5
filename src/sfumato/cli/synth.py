"""The command for synthetic tables: what one would cost, one that is paid for, its report, and stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.questions import analyst_option
from sfumato.errors import UsageError
from sfumato.lab.synthetic.published_table import check_table_target


@click.command()
@click.argument("table")
@lab_option
@analyst_option
@click.option("--columns", default="", help="Columns to synthesise, with commas between them.")
@click.option("--epsilon", type=float, help="ε to spend.")
@click.option("--delta", type=float, help="δ to spend; together with --epsilon it means Gaussian noise.")
@click.option("--rho", type=float, help="ρ (zCDP) to spend.")
@click.option("--method", default="aim", show_default=True, help="How marginals are chosen: aim or mst.")
@click.option("--bins", type=int, help="Bins of each column of numbers.")
@click.option("--rows", type=int, default=1000, show_default=True, help="Rows of the synthetic table.")
@click.option("--output", help="A .parquet or .csv file; without it, only what it would cost is shown.")
@click.option("--report", help="A folder for the quality report and its pictures, beside --output.")
@click.option("--target", help="A column that the report trains a classifier to predict.")
@click.option("--publish", help="Publish it for everyone under this name; the steward pays.")
@click.option("--twin", is_flag=True, help="A stand-in with all columns: free, or with the marginals bought.")
@as_json
def synth(table: str, folder: str, analyst: str | None, columns: str, as_json: bool, **typed: Any) -> None:
    """Charge for a synthetic table and write it, or show how its budget would be divided.

    Asked again it costs nothing.
    """
    names = [name.strip() for name in columns.split(",") if name.strip()]
    asked = SynthCommand(table, folder, analyst, tuple(names), as_json, **typed)
    asked.check()
    asked.run()


@dataclass(frozen=True, slots=True)
class SynthCommand:
    """One call of the command, as it was typed."""

    table: str
    folder: str
    analyst: str | None
    columns: tuple[str, ...]
    as_json: bool
    epsilon: float | None
    delta: float | None
    rho: float | None
    method: str
    bins: int | None
    rows: int
    output: str | None
    report: str | None
    target: str | None
    publish: str | None
    twin: bool

    def check(self) -> None:
        """Refuse what could not be written or does not go together, before anything is paid for."""
        if self.output is not None:
            check_table_target(self.output)
        problems = {
            "--columns says which columns to synthesise; a twin has all of them.": self.twin
            == bool(self.columns),
            "The steward publishes, so --publish goes without --as.": bool(self.publish and self.analyst),
            "A twin has no report: it is for rehearsing alone.": bool(self.twin and self.report),
            "--report names a folder whose parent exists, and is written beside --output or --publish.": bool(
                self.report and not (Path(self.report).parent.is_dir() and (self.output or self.publish))
            ),
            "--target is for the report.": bool(self.target and not self.report),
        }
        for sentence, found in problems.items():
            if found:
                raise UsageError("SF-U104", sentence, try_="sfumato synth --help")

    def run(self) -> None:
        """Show the quote, or charge, estimate, write and report, and say each step as it is done."""
        lab = sf.open(self.folder)
        session = lab.session(self.analyst)
        spend: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        made: Any = (
            sf.synth.Twin(**spend, bins=self.bins)
            if self.twin
            else sf.synth.Marginals(**spend, bins=self.bins, method=self.method)
        )
        if self.output is None and self.publish is None:
            self._quote(session, made)
            return
        # The number of steps follows from what was typed alone.
        steps = 2 + (self.publish is not None) + (self.output is not None) + (self.report is not None)
        said = _Steps(steps)
        said.done("planned")
        session.fit(made, table=self.table, columns=self.columns)
        said.done("charged and measured, or found as it was charged before")
        found = {"rows": self.rows, "guarantee": made.guarantee_.to_dict() if made.guarantee_ else None}
        published = None
        if self.publish is not None:
            published = lab.publish(made, rows=self.rows, name=self.publish)
            said.done(f"published as {published.name}")
            found["published"] = published.name
        if self.output is not None:
            self._write(published, made, check_table_target(self.output))
            said.done(f"written to {self.output}")
            found["output"] = self.output
        if self.report is not None:
            found["report"] = str(sf.synth.report_quality(made, target=self.target).save(self.report))
            said.done(f"report written to {self.report}")
        self._show(found, made)

    def _quote(self, session: Any, made: Any) -> None:
        if self.twin:
            cost = "charged as typed" if made.is_bought else "free: it is drawn from what is declared alone"
            show_json({"cost": cost}) if self.as_json else print_text(f"A twin of {self.table} is {cost}.")
            return
        quote = session.quote(made, table=self.table, columns=self.columns)
        show_json({"cost": quote.cost, "parts": list(quote.parts)}) if self.as_json else print_text(quote)

    def _write(self, published: Any, made: Any, target: Path) -> None:
        if published is not None:
            published.save(target)
            return
        drawn = made.sample(self.rows)
        if target.suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(drawn, target)
        else:
            from pyarrow import parquet

            parquet.write_table(drawn, target)

    def _show(self, found: dict[str, Any], made: Any) -> None:
        if self.as_json:
            show_json(found)
            return
        where = self.output or f"{self.publish}, which everyone may read"
        promised = "It cost nothing." if made.guarantee_ is None else str(made.guarantee_)
        print_text(f"{self.rows:,} rows are in {where}.\n{promised}")


class _Steps:
    """Says each step of a plan when it is done, on standard error. Their number is public."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done = steps, 0

    def done(self, what: str) -> None:
        self._done += 1
        print_text(f"{self._done}/{self._steps} {what}", error=True)
