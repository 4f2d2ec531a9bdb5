"""Commands of an analyst: quote, tune, ask, published, budget, explain; and publish, for the steward."""

from __future__ import annotations

from contextlib import closing
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show, show_json
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_typed
from sfumato.lab.lab import open_to_read
from sfumato.lab.query import require_query
from sfumato.lab.synthetic.published_table import PublishedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.curator.answers.computed import ComputedAnswer
    from sfumato.curator.answers.release import Release
    from sfumato.curator.payer import Spending
    from sfumato.lab.bounds.paying import Tuning
    from sfumato.lab.publications.published import Published
    from sfumato.lab.query import Query
    from sfumato.lab.session import Session

analyst_option = click.option(
    "--as", "analyst", help="Analyst whose quota is spent; without it, the steward asks."
)


def spend_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how much to spend; the command gets those that were given as `spend`."""

    @wraps(command)
    def gathered(*, epsilon: Any, delta: Any, rho: Any, share: Any, risk: Any, **others: Any) -> None:
        typed = {"epsilon": epsilon, "delta": delta, "rho": rho, "share": share, "risk": risk}
        command(**others, spend={name: amount for name, amount in typed.items() if amount is not None})

    for option in (
        click.option("--risk", type=float, help="Chance of a right guess from 50:50 to allow, such as 0.55."),
        click.option("--share", type=float, help="Share of the budget to spend, such as 0.02."),
        click.option("--rho", type=float, help="ρ (zCDP) to spend, with Gaussian noise."),
        click.option(
            "--delta", type=float, help="δ to spend; together with --epsilon it means Gaussian noise."
        ),
        click.option("--epsilon", type=float, help="ε to spend."),
    ):
        gathered = option(gathered)
    return gathered


tune_option = click.option(
    "--tune",
    type=float,
    help="ε for picking first which rows and groups of a unit count, privately, so that the error is least.",
)

clip_option = click.option(
    "--clip",
    type=click.Choice(["auto"]),
    help="Clip the values that are summed to ends that are chosen privately, for a tenth of ε.",
)


@click.command()
@click.argument("sql", nargs=-1, required=True)
@lab_option
@analyst_option
@spend_options
@tune_option
@clip_option
@click.option("--rows", type=int, help="Assumed rows per group, for the expected error of averages.")
@as_json
def quote(
    sql: tuple[str, ...],
    folder: str,
    analyst: str | None,
    rows: int | None,
    tune: float | None,
    clip: str | None,
    as_json: bool,
    spend: dict[str, Any],
) -> None:
    """Show the price and expected error of a question. This reads no data and spends nothing.

    Several questions are priced together, for one charge. With --tune, a question that was tuned is shown
    with its bounds, and otherwise the price of tuning it.
    """
    session = sf.open(folder).session(analyst)
    given = {"n": rows} if rows else None
    spend = _with_clip(spend, clip, tune)
    if tune is None:
        asked = session.sql(sql[0]) if len(sql) == 1 else session.ask_together(sql)
        show(asked.quote(given=given, **spend), as_json)
        return
    question = _find_single(session, sql)
    tuning = _tuning(question, spend)
    picked = tuning.find_answer(epsilon=tune)
    if picked is not None:
        show(question.with_bounds(picked).quote(given=given, **spend), as_json)
        return
    if not as_json:
        print_text("Not tuned yet. Tuning would cost:")
    show(tuning.quote(epsilon=tune), as_json)


@click.command()
@click.argument("sql")
@lab_option
@analyst_option
@click.option("--epsilon", type=float, required=True, help="ε that picking the bounds may cost.")
@click.option(
    "--for-epsilon", type=float, help="ε of the question itself; ten times that of tuning, if not said."
)
@click.option("--key", help="Idempotency key: retries with the same key are charged once.")
@as_json
def tune(
    sql: str,
    folder: str,
    analyst: str | None,
    epsilon: float,
    for_epsilon: float | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Pick which rows and groups of a unit count, privately, so that the error of a question is least.

    What is charged are noisy counts of units. The bounds are printed with what they leave out.
    """
    session = sf.open(folder).session(analyst)
    picked = require_query(session.question(sql)).tuning(for_epsilon).release(epsilon=epsilon, key=key)
    if as_json:
        show_json(picked.to_dict())
        return
    asked = f"--tune {format_typed(epsilon)} --epsilon {format_typed(for_epsilon or 10 * epsilon, 6)}"
    print_text(f"{picked}\nEstimated bias: {picked.bias}\n{picked.receipt.sentence()}")
    print_text(f"Next: sfumato quote or sfumato ask, with {asked}")


@click.command()
@click.argument("sql", nargs=-1, required=True)
@lab_option
@analyst_option
@spend_options
@tune_option
@clip_option
@click.option("--key", help="Idempotency key: retries with the same key are charged once.")
@click.option("--plot", help="Also save a chart of the answer to this .png, .svg, .html or .json file.")
@click.option("--all-groups", is_flag=True, help="Also show groups whose numbers are not significant.")
@click.option("--then", help="A SELECT over the answer, which is its table answer; this is free.")
@as_json
def ask(
    sql: tuple[str, ...],
    folder: str,
    analyst: str | None,
    key: str | None,
    plot: str | None,
    all_groups: bool,
    then: str | None,
    tune: float | None,
    clip: str | None,
    as_json: bool,
    spend: dict[str, Any],
) -> None:
    """Charge for a question and answer it. Asking the same question again is free.

    Several questions are charged once, and their answers agree with each other.
    With --tune, the bounds of a question are picked first, which is a charge of its own. Both are priced
    before: if what is left does not pay for both, nothing is charged.
    """
    # The path is checked first, so that no answer is paid for and then not drawn.
    target = None if plot is None else sf.viz.check_target(plot)
    session, spend = sf.open(folder).session(analyst), _with_clip(spend, clip, tune)
    if tune is not None:
        question = _tune_first(_find_single(session, sql), tune, spend)
    elif then is not None:
        question = _find_single(session, sql, "followed by --then")
    elif len(sql) > 1:
        released = session.ask_together(sql).release(key=key, **spend)
        shown = tuple(each.all_groups() for each in released) if all_groups else released
        _ask_together(shown, target, as_json)
        return
    else:
        question = session.sql(sql[0]) if target is None else session.question(sql[0])
    release = question.release(key=key, **spend)
    # Public facts are asked for in the same way, and have no groups.
    release = release.all_groups() if all_groups and hasattr(release, "all_groups") else release
    found = release if then is None else _compute_then(release, then, as_json)
    if then is None:
        show(release, as_json)
    if target is not None:
        found.plot().save(target)


def _with_clip(spend: dict[str, Any], clip: str | None, tune: float | None) -> dict[str, Any]:
    """Return the spend with clip="auto", if that was typed. A question has bounds of one kind."""
    if clip is None:
        return spend
    if tune is not None:
        raise click.UsageError("--clip and --tune are two ways to bound a question: use one of them")
    return {**spend, "clip": clip}


def _compute_then(release: Release, text: str, as_json: bool) -> ComputedAnswer:
    """Print a release and what a SELECT gives over it, or both in one document, and return the latter."""
    if as_json:
        found = release.sql(text)
        show_json({**found.to_dict(), "answer": release.to_dict()})
        return found
    # The charge is made: the answer is shown, also if the SELECT is refused.
    print_text(f"{release}\n")
    found = release.sql(text)
    print_text(str(found))
    return found


def _ask_together(releases: tuple[Release, ...], target: Path | None, as_json: bool) -> None:
    """Print the answers of questions that were asked together, and save a chart of each."""
    if as_json:
        show_json([each.to_dict() for each in releases])
    else:
        print_text("\n\n".join(map(str, releases)))
    for place, each in enumerate(releases if target is not None else (), start=1):
        each.plot().save(target.with_stem(f"{target.stem}-{place}"))  # type: ignore[union-attr]


@click.command()
@click.argument("sql")
@lab_option
@click.option("--name", help="Name under which files and mirrors have the answer, such as visits_by_ward.")
@spend_options
@as_json
def publish(sql: str, folder: str, as_json: bool, name: str | None, spend: dict[str, Any]) -> None:
    """Charge the population's budget once for a question, and let everyone read the answer for free."""
    show(sf.open(folder).publish(sql, name=name, **spend), as_json)


@click.command()
@lab_option
@click.option("--save", help="Name of a published synthetic table to write to --output, with its card.")
@click.option("--output", help="A .parquet or .csv file for it.")
@as_json
def published(folder: str, save: str | None, output: str | None, as_json: bool) -> None:
    """Show what was published, with the answers. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        every = lab.published()
        if save is not None:
            target = _find_table(every, save).save(output or f"{save}.parquet")
            show_json({"output": str(target)}) if as_json else print_text(f"{save} is in {target}.")
        elif as_json:
            show_json([each.describe() for each in every])
        else:
            print_text("\n\n".join(map(str, every)) or "Nothing has been published yet.")


def _find_single(session: Session, sql: tuple[str, ...], done: str = "tuned") -> Query:
    """Return the only question that was typed; others cannot be `done` so."""
    return require_query(session.question(sql[0]) if len(sql) == 1 else sql, done)


def _tune_first(question: Query, epsilon: float, spend: dict[str, Any]) -> Query:
    """Charge for tuning and return the question with its bounds; a wrong spend is told before."""
    question.quote(**spend)
    return question.with_bounds(_tuning(question, spend).release(epsilon=epsilon))


def _tuning(question: Query, spend: dict[str, Any]) -> Tuning:
    """Return what tuning asks, for a question of the ε that is spent on it, where that is said as one."""
    for_epsilon = spend.get("epsilon") if "delta" not in spend else None
    return question.tuning(for_epsilon, then=cast("Spending", spend) if spend else None)


def _find_table(every: Sequence[Published | PublishedTable], name: str) -> PublishedTable:
    found = [each for each in every if isinstance(each, PublishedTable) and each.name == name]
    if not found:
        raise UsageError(
            "SF-U101", "No synthetic table of this name was published.", got=name, try_="sfumato published"
        )
    return found[-1]


@click.command()
@lab_option
@analyst_option
@as_json
def budget(folder: str, analyst: str | None, as_json: bool) -> None:
    """Show what is left of the budgets, or of an analyst's quotas."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        show(lab.session(analyst).budget, as_json)


@click.command()
@click.argument("code", required=False)
@click.option("--epsilon", type=float, help="ε of the guarantee.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="δ of the guarantee.")
@click.option(
    "--prior", type=float, default=0.5, show_default=True, help="Prior probability that you are in the data."
)
@as_json
def explain(code: str | None, epsilon: float | None, delta: float, prior: float, as_json: bool) -> None:
    """Explain what a guarantee (--epsilon) or an error CODE means."""
    if epsilon is not None:
        show(sf.privacy.explain(epsilon, delta, prior), as_json)
        return
    from sfumato.errors.codes import CODES

    name = f"SF-{(code or '').upper().removeprefix('SF-')}"
    if name not in CODES:
        raise UsageError(
            "SF-U101",
            "There is no error code with this name.",
            try_="sfumato explain SF-B101, or sfumato explain --epsilon 1",
        )
    show_json({"code": name, "page": CODES[name]}) if as_json else print_text(f"{name}  {CODES[name]}")
