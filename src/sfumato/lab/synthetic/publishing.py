"""Publishing a synthetic table: charged once, drawn once, and the same file for everyone from then on."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sfumato.curator.payer import find_kept
from sfumato.errors import UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import lock_folder
from sfumato.lab.synthetic.published_table import TABLE, TWIN, PublishedTable, keep_table, list_published
from sfumato.privacy.exact import parse_whole
from sfumato.synth import Marginals, Twin
from sfumato.synth.quality.table_quality import TableQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import LabAccess

ROWS = 1000
"""Rows of a synthetic table for which no number is named."""
_FREE = "costs nothing: drawn from what is declared of the table alone"


def publish_table(
    lab: LabAccess,
    fit: Callable[..., Marginals | Twin],
    lock: Callable[[], AbstractContextManager[object]],
    made: Marginals | Twin,
    *,
    table: str | None = None,
    columns: Sequence[str] = (),
    rows: int = ROWS,
    rows_per_unit: int = 1,
    name: str | None = None,
    key: str | None = None,
) -> PublishedTable:
    """Fit a synthesis, where a table is named, and keep one table of it while `lock` keeps others waiting."""
    size = parse_whole(rows, "rows")
    check_publication(made, columns, key)
    with name_disk_errors():
        lab.synthetic_folder.mkdir(exist_ok=True)
    # Whoever publishes the same at the same time waits, and then finds it paid for.
    with lock_folder(lab.synthetic_folder):
        if table is not None:
            made = fit(made, table=table, columns=columns, rows_per_unit=rows_per_unit)
        with name_disk_errors(), lock():
            return SyntheticPublication(lab, made, size, name, key).find_or_keep()


@dataclass(frozen=True, slots=True)
class SyntheticPublication:
    """A fitted synthesis that is to be published, with so many rows."""

    lab: LabAccess
    made: Marginals | Twin
    rows: int
    name: str | None = None
    key: str | None = None

    def find_or_keep(self) -> PublishedTable:
        """Return what was published of this synthesis with as many rows, or draw it and keep it."""
        every = list(list_published(self.lab))
        known = {each.path.name: each for each in every}
        digest = self._digest()
        return known[digest] if digest in known else self._keep(digest, len(every) + 1)

    @property
    def _marginals(self) -> Marginals | None:
        return self.made.marginals if isinstance(self.made, Twin) else self.made

    def _digest(self) -> str:
        """Return what tells publications apart: the request, the snapshot, and the form of the table."""
        request = "" if self._marginals is None else require_kept(self.lab, self._marginals)
        kind = type(self.made).__name__
        named = [kind, request, self._table().snapshot_name, str(self.rows), self.key or ""]
        return hashlib.sha256("\n".join(named).encode()).hexdigest()[:24]

    def _table(self) -> Table:
        if isinstance(self.made, Twin):
            return self.made.require_table()
        found: Table = self.made.require_planned().plan.table
        return found

    def _keep(self, digest: str, number: int) -> PublishedTable:
        # The report is on the very rows that are published.
        seed = secrets.randbits(53)
        drawn, table, marginals = self._draw(seed), self._table(), self._marginals
        card: dict[str, Any] = {
            "number": number,
            "name": self.name or f"{table.name}_synthetic",
            "kind": TWIN if isinstance(self.made, Twin) else TABLE,
            "table": table.name,
            "snapshot": table.snapshot_name,
            "published": datetime.now(UTC).date().isoformat(),
            "rows": self.rows,
            "columns": drawn.column_names,
            "seed": seed,
            "cost": _FREE,
        }
        text = ""
        if marginals is not None:
            report = TableQuality(marginals, self.rows, seed, None).report()
            card["cost"] = f"cost {marginals.guarantee_.cost_in_words} for {marginals.guarantee_.unit}"
            card["request"] = require_kept(self.lab, marginals)
            card["method"] = marginals.method
            card |= report.to_dict()
            text = report.to_markdown()
        return keep_table(self.lab, digest, drawn, card, f"{_head(card)}{text}")

    def _draw(self, seed: int) -> pa.Table:
        if isinstance(self.made, Twin):
            return self.made.sample(self.rows, seed=seed)
        return self.made.sample(self.rows, key=self.key, seed=seed)


def check_publication(made: object, columns: Sequence[str], key: str | None) -> None:
    """Refuse what could not be published, before it is fitted and charged for."""
    if not isinstance(made, Marginals | Twin):
        raise UsageError(
            "SF-E260",
            "Only a sf.synth.Marginals, a sf.synth.Twin or a question is published.",
            got=type(made).__name__,
            try_='lab.publish(sf.synth.Marginals(epsilon=1, delta=1e-8), table="visits", columns=[…])',
        )
    if key is not None and key in columns:
        raise UsageError("SF-E110", "The key has the name of a column.", got=key, try_='key="id"')


def require_kept(lab: LabAccess, fitted: Marginals) -> str:
    """Return the request that a synthesis was charged as; refuse one that this lab did not charge."""
    plan = fitted.require_planned().plan
    if find_kept(lab.ledger, plan) is None:
        raise UsageError(
            "SF-E260",
            "This synthesis was not fitted in this lab, so what it cost is not on its ledger.",
            try_='lab.publish(sf.synth.Marginals(epsilon=1, delta=1e-8), table="visits", columns=[…])',
        )
    found: str = plan.request
    return found


def _head(card: dict[str, Any]) -> str:
    lines = [f"# {card['name']}", "", f"{card['rows']:,} synthetic rows of '{card['table']}'."]
    lines += [
        f"Published {card['published']}; {card['cost']}.",
        f"Columns: {', '.join(card['columns'])}.",
        "",
    ]
    return "\n".join([*lines, ""])
