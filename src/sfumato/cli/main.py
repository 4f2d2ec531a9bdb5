"""The `sfumato` command and all of its subcommands."""

from __future__ import annotations

import click

import sfumato
from sfumato.cli import (
    attacks,
    audits,
    fits,
    ledger,
    plans,
    questions,
    reproduce,
    serve,
    steward,
    streams,
    surveys,
    synth,
    tables,
)
from sfumato.cli.machine import doctor
from sfumato.cli.output import CodedGroup
from sfumato.cli.work import charges, mirror, packages, requests


@click.group(cls=CodedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sfumato.__version__)
def main() -> None:
    """Learn from sensitive tables without learning about any one person in them.

    Exit codes: 0 success, 2 wrong usage, 3 refused by a budget, 4 refused by policy, 1 any other error.
    """


@main.command()
@click.option("--output", default="demo-output", show_default=True, help="Folder for charts and the lab.")
@click.option("--port", default=8000, show_default=True, help="Port of the pages; if it is taken, another.")
@click.option("--serve/--no-serve", "serves", default=None, help="Serve the pages at the end, or not.")
def demo(output: str, port: int, serves: bool | None) -> None:
    """Show quotes, answers and a refusal on a generated clinic, train, synthesise, and serve its pages.

    On a terminal the pages are served until Ctrl-C; elsewhere the command that serves them is printed.
    """
    from sfumato.cli.demo import run
    from sfumato.cli.demo_pages import open_pages

    open_pages(run(output), port, serves)


main.add_command(steward.init)
main.add_command(tables.table)
main.add_command(steward.user)
main.add_command(serve.serve)
main.add_command(questions.quote)
main.add_command(questions.tune)
main.add_command(questions.ask)
main.add_command(questions.publish)
main.add_command(questions.published)
main.add_command(questions.budget)
main.add_command(questions.explain)
main.add_command(synth.synth)
main.add_command(streams.stream)
main.add_command(surveys.survey)
main.add_command(ledger.ledger)
main.add_command(attacks.attack)
main.add_command(mirror.mirror)
main.add_command(audits.audit)
main.add_command(plans.plan)
main.add_command(fits.fit)
main.add_command(reproduce.reproduce)
main.add_command(doctor.doctor)
main.add_command(requests.request)
main.add_command(charges.charge)
main.add_command(packages.package)
