"""The grey-box audit of the gate: a lab's own question on two tables that differ by one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.audit.replay import Replayed, replay
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.lab.lab import Lab


def question(lab: Lab, sql: str, tables: tuple[str, str], **spending: Any) -> Replayed:
    """Ask a question of two tables of one lab, the second without one unit of the first, and compare them.

    The question names its table `{table}`. Both tables are registered in the same lab, because the rows that
    are kept of a unit depend on the lab's key. It is charged twice, with what is named as it is to a release,
    `epsilon=` or `rho=`: use a lab made for the audit.
    """
    session = lab.session()
    # A question that was asked before is answered from the ledger without noise, so it would show nothing.
    quotes = [session.sql(sql.format(table=table)).quote(**spending) for table in tables]
    if any(quote.free for quote in quotes):
        raise UsageError(
            "SF-A106",
            "This question was answered before, so no noise would be drawn.",
            try_="another epsilon, or a new lab",
        )

    def asked(table: str) -> dict[str, list[Any]]:
        answer: dict[str, list[Any]] = (
            session.sql(sql.format(table=table))
            .release(**spending, include_empty=True)
            .to_arrow()
            .to_pydict()
        )
        return answer

    return replay(asked, [tables], claim=quotes[0].plan.event)
