"""The `sfumato` command and all of its subcommands."""

from __future__ import annotations

import click

import sfumato
from sfumato.cli import attacks, audits, feeds, ledger, questions, serve, steward, streams, synth, tables
from sfumato.cli.output import CodedGroup


@click.group(cls=CodedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sfumato.__version__)
def main() -> None:
    """Learn from sensitive tables without learning about any one person in them.

    Exit codes: 0 success, 2 wrong usage, 3 refused by a budget, 4 refused by policy, 1 any other error.
    """


@main.command()
@click.option("--output", default="demo-output", show_default=True, help="Folder for the charts.")
def demo(output: str) -> None:
    """Show quotes, answers and a refusal on a generated clinic, then the histogram experiment."""
    from sfumato.cli.demo import run

    run(output)


main.add_command(steward.init)
main.add_command(tables.table)
main.add_command(steward.user)
main.add_command(serve.serve)
main.add_command(questions.quote)
main.add_command(questions.ask)
main.add_command(questions.publish)
main.add_command(questions.published)
main.add_command(questions.budget)
main.add_command(questions.explain)
main.add_command(synth.synth)
main.add_command(streams.stream)
main.add_command(ledger.ledger)
main.add_command(attacks.attack)
main.add_command(feeds.mirror)
main.add_command(feeds.serve_sql)
main.add_command(audits.audit)
