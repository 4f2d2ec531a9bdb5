"""`report_quality`: the report on what a fitted generator draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.privacy.exact import parse_whole
from sfumato.synth.marginals import Marginals
from sfumato.synth.quality.labelled_quality import LabelledQuality
from sfumato.synth.quality.table_quality import TableQuality

if TYPE_CHECKING:
    from sfumato.synth.quality.report import QualityReport


def report_quality(
    generator: Any, *, rows: int = 10_000, seed: int = 0, target: str | None = None
) -> QualityReport:
    """Return a report on a fitted `Marginals`, `Moments`, `MERF`, or another generator with samples.

    It is made of released numbers and of so many synthetic rows, and costs nothing. Of a table, `target`
    names a column that a classifier is trained to predict.
    """
    count = parse_whole(rows, "rows")
    if isinstance(generator, Marginals):
        return TableQuality(generator, count, seed, target).report()
    return LabelledQuality(generator, count, seed).report()
