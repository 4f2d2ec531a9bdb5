"""`report_quality`: the report on what a fitted generator draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.oracle.fit_tally import FitTally
from sfumato.oracle.guarantee import Guarantee
from sfumato.privacy.exact import parse_confidence, parse_whole
from sfumato.synth.marginals import Marginals
from sfumato.synth.own_fits import pay_for_own_fit
from sfumato.synth.own_frames import list_own_columns, release_own
from sfumato.synth.quality.labelled_quality import LabelledQuality, PaidCounts
from sfumato.synth.quality.table_quality import TableQuality
from sfumato.synth.spending import Currency, read_budget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.privacy.events import Event
    from sfumato.synth.quality.report import QualityReport

ROWS = 10_000
"""Synthetic rows that a report looks at if no number is named."""


def report_quality(
    generator: Any,
    *,
    rows: int = ROWS,
    seed: int = 0,
    target: str | None = None,
    against: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    rho: Any = None,
    confidence: float = 0.95,
    budget: Any = None,
) -> QualityReport:
    """Return a report on a fitted `Marginals`, `Moments`, `MERF`, or another generator with samples.

    It is made of released numbers and of so many synthetic rows, and costs nothing. Of a table, `target`
    names a column that a classifier is trained to predict. With `against`, an own frame or rows and their
    labels, distances and the share of right predictions are measured there with noise: for epsilon, epsilon
    and delta, or rho, charged to `budget` first where one is given, and else counted with the fits.

    Privacy
    -------
    Protects : one row of `against`, add/remove; nothing else is read.
    Costs    : epsilon, or (epsilon, delta), or rho, beside what the generator cost.
    Because  : docs/proofs/synth.md#measured-quality
    """
    count, spend = parse_whole(rows, "rows"), {"epsilon": epsilon, "delta": delta, "rho": rho}
    parse_confidence(confidence)
    if isinstance(generator, Marginals):
        quality = TableQuality(generator, count, seed, target)
        return (
            quality.report() if against is None else _check_frame(quality, against, spend, confidence, budget)
        )
    labelled = LabelledQuality(generator, count, seed)
    return labelled.report() if against is None else _check_rows(labelled, against, spend, confidence, budget)


def _check_frame(
    quality: TableQuality, frame: Any, spend: Mapping[str, Any], confidence: float, budget: Any
) -> QualityReport:
    paid = read_check_budget(spend)
    kernel = quality.make_check(paid, Currency(concentrated=True))
    given = list_own_columns(frame, [column.name for column in kernel.drawn.columns])
    free = quality.report()
    promised = _pay(quality.fitted, paid, kernel.event(), budget)
    written = release_own(kernel.drawn.columns, kernel, given)
    return quality.add_check(free, kernel, written, confidence, promised)


def _check_rows(
    quality: LabelledQuality, against: Any, spend: Mapping[str, Any], confidence: float, budget: Any
) -> QualityReport:
    paid = read_check_budget(spend)
    counts, rows = PaidCounts.of(paid), quality.read_rows(against)
    free = quality.report()
    promised = _pay(quality.generator, paid, counts.event, budget)
    return quality.add_check(free, quality.count_right(*rows, counts), counts, confidence, promised)


def read_check_budget(spend: Mapping[str, Any]) -> FitBudget:
    """Return what a measurement costs, or say that it must be named."""
    if all(value is None for value in spend.values()):
        raise UsageError(
            "SF-E232",
            "Measuring the quality on rows is charged, so it needs an amount of its own.",
            try_="epsilon=0.1; or leave the rows out, for a report that costs nothing",
        )
    return read_budget(spend)


def _pay(generator: Any, paid: FitBudget, event: Event, account: Any) -> Guarantee:
    """Charge for a measurement, or count it with the fits of the generator, and return what is promised."""
    fits = getattr(generator, "_fits", None) or FitTally()
    others = pay_for_own_fit(
        account, fits, event, paid.delta, "report on synthetic data", "fits and measurements"
    )
    return replace(Guarantee.of(paid), others=others)
