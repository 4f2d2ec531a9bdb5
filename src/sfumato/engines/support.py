"""Which engine answers which question: docs/engines.md is written from this, and a test asks each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.engines.registry import list_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

# DuckDB is not a host: it takes what no other engine claims.
ENGINES = ("DuckDB", *(host.NAME for host in list_hosts()))


@dataclass(frozen=True, slots=True)
class SupportedQuestion:
    """A kind of question with an example, and the error code of each engine that lacks it."""

    question: str
    example: str
    """What is typed, in a session `s` over visits, stays, the public table wards, and the graph friends."""
    lacking: Mapping[str, str] = field(default_factory=dict)


def _sql(text: str) -> str:
    return f's.sql("{text}")'


def _lacking(kind: str) -> dict[str, str]:
    return {host.NAME: host.LACKS[kind] for host in list_hosts() if kind in host.LACKS}


_PER_UNIT = "SELECT who, SUM(cost) AS c FROM visits GROUP BY who"
_IN_ORDER = "PARTITION BY who ORDER BY day"

SUPPORT = (
    SupportedQuestion(
        "counts, sums and averages", _sql("SELECT COUNT(*) AS n, SUM(cost) AS c, AVG(cost) AS a FROM visits")
    ),
    SupportedQuestion(
        "variances and correlations", _sql("SELECT VARIANCE(cost) AS v, CORR(cost, age) AS r FROM visits")
    ),
    SupportedQuestion(
        "quantiles", _sql("SELECT MEDIAN(cost) AS m, QUANTILE_CONT(cost, 0.9) AS q FROM visits")
    ),
    SupportedQuestion("minimum and maximum", _sql("SELECT MIN(cost) AS a, MAX(cost) AS b FROM visits")),
    SupportedQuestion("counts of units", _sql("SELECT COUNT(DISTINCT who) AS n FROM visits")),
    SupportedQuestion(
        "conditions", _sql("SELECT COUNT(*) AS n FROM visits WHERE LOWER(note) LIKE '%pain%' AND age > 40")
    ),
    SupportedQuestion(
        "groups with listed keys", _sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    ),
    SupportedQuestion(
        "groups with computed keys",
        _sql("SELECT YEAR(day) AS y, COUNT(*) AS n FROM visits GROUP BY YEAR(day)"),
    ),
    SupportedQuestion(
        "groups with discovered keys", _sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note")
    ),
    SupportedQuestion("quantiles by group", _sql("SELECT ward, MEDIAN(cost) AS m FROM visits GROUP BY ward")),
    SupportedQuestion("one value per unit", _sql(f"SELECT AVG(c) AS a FROM ({_PER_UNIT}) AS q")),  # noqa: S608
    SupportedQuestion(
        "rows of a unit in their order",
        _sql(f"SELECT AVG(x) AS a FROM (SELECT LAG(cost) OVER ({_IN_ORDER}) AS x FROM visits) AS q"),  # noqa: S608
    ),
    SupportedQuestion(
        "rows of a unit that exist",
        _sql("SELECT COUNT(*) AS n FROM visits WHERE who IN (SELECT who FROM stays WHERE age > 30)"),
    ),
    SupportedQuestion(
        "values of a public table",
        _sql("SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 3)"),
    ),
    SupportedQuestion(
        "roots, logarithms and powers",
        _sql("SELECT SUM(SQRT(cost) + LN(cost + 1) + EXP(cost) + POWER(cost, 1.5)) AS s FROM visits"),
    ),
    SupportedQuestion(
        "regular expressions", _sql("SELECT COUNT(*) AS n FROM visits WHERE REGEXP_MATCHES(note, '^p|ch.')")
    ),
    SupportedQuestion(
        "a join with a public table", _sql("SELECT SUM(beds) AS n FROM visits JOIN wards USING (ward)")
    ),
    SupportedQuestion("a join on the unit", _sql("SELECT COUNT(*) AS n FROM visits JOIN stays USING (who)")),
    SupportedQuestion(
        "a bounded number of groups per unit",
        's.table("visits").bounded(groups=1).group_by("ward").agg(n=sf.count())',
    ),
    SupportedQuestion("the most frequent values", 's.table("visits").top("ward", k=2)'),
    SupportedQuestion("parts of a table", 's.table("visits").partition("ward")["A"].count()'),
    SupportedQuestion("the distance to a property", 's.table("visits").distance("COUNT(*) >= 10")'),
    SupportedQuestion("subsample and aggregate", 's.table("visits").subsample(sf.median("cost"), blocks=4)'),
    SupportedQuestion("bounds that contain most values", 's.table("visits").bounds("cost")'),
    SupportedQuestion("rows per unit", 's.table("visits").units().agg(n=sf.mean("rows"))'),
    SupportedQuestion(
        "bounds picked for a question",
        's.sql("SELECT ward, SUM(cost) AS c FROM visits GROUP BY ward").tune(epsilon=50)',
    ),
    SupportedQuestion("degrees and edges of a graph", 's.graph("friends").edges()', _lacking("graphs")),
)
