"""sfumato … : every command, grouped by who types it."""

from __future__ import annotations

import click

import sfumato
from sfumato.cli import ledger, questions, steward
from sfumato.cli.output import CodedGroup


@click.group(cls=CodedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sfumato.__version__)
def main() -> None:
    """Learn from sensitive tables without learning about any one person in them.

    Exit codes: 0 ok, 2 usage, 3 refused by a budget, 4 refused by policy, 1 anything else.
    """


@main.command()
@click.option("--output", default="demo-output", show_default=True, help="Where the pictures go.")
def demo(output: str) -> None:
    """A throw-away clinic: quote, release, refusal, replay; then the histogram experiment."""
    from sfumato.cli.demo import run

    run(output)


main.add_command(steward.init)
main.add_command(steward.table)
main.add_command(steward.user)
main.add_command(questions.quote)
main.add_command(questions.ask)
main.add_command(questions.publish)
main.add_command(questions.published)
main.add_command(questions.budget)
main.add_command(questions.explain)
main.add_command(ledger.ledger)
