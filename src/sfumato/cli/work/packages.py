"""The command for publication packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.questions import analyst_option, spend_options
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.curator.payer import Spending
    from sfumato.lab.lab import Lab


@click.command()
@click.argument("what")
@click.argument("target")
@lab_option
@analyst_option
@spend_options
@click.option("--title", default="", help="Title of the publication.")
@click.option("--contact", default="", help="Whom readers may ask.")
@click.option("--proofs", default="docs/proofs/", show_default=True, help="Address of the proof notes.")
@as_json
def package(
    what: str,
    target: str,
    folder: str,
    analyst: str | None,
    spend: dict[str, Any],
    as_json: bool,
    **words: str,
) -> None:
    """Pack an answer for publication into TARGET, a new folder or .zip file. This never charges.

    WHAT is the text of a published question, the name of a published synthetic table, or, with the spend it
    was asked at, a question that was answered before.
    """
    lab = sf.open(folder)
    found = _find_answer(lab, what, analyst, spend) if spend else _find_published(lab, what)
    path = lab.package(found, target, **words)
    if as_json:
        show_json({"package": str(path)})
    else:
        print_text(f"The package is in {path}.")


def _find_published(lab: Lab, what: str) -> Any:
    for each in reversed(lab.published()):
        if what == getattr(each, "text", None) or what == getattr(each, "name", None):
            return each
    raise UsageError(
        "SF-U101",
        "Nothing that was published has this text or name.",
        got=what[:80],
        try_="sfumato published; for an answer that is not published, say at which --epsilon it was asked",
    )


def _find_answer(lab: Lab, what: str, analyst: str | None, spend: dict[str, Any]) -> Any:
    from sfumato.lab.work.packages import find_answer

    return find_answer(lab.session(analyst).question(what), cast("Spending", spend))
