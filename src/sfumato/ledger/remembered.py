"""A transaction in one trip: decided by what this process remembers, which the database then makes sure of.

Whoever wrote last knows the newest entry and the accounts' totals. If that entry is still the newest and the
keys and requests are new, all is as remembered, and what was decided can be written and committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.ledger.contract import Reserved
from sfumato.ledger.tables import Known, Standing, marks

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection, Wanted
    from sfumato.ledger.verify import Account

_NEWEST = "EXISTS (SELECT 1 FROM entries WHERE seq = (SELECT max(seq) FROM entries) AND seq = ? AND hash = ?)"
_UNUSED = "NOT EXISTS (SELECT 1 FROM charges WHERE payers IN {payers} AND key IN {keys})"
_UNANSWERED = (
    "NOT EXISTS (SELECT 1 FROM charges c JOIN answers a ON a.charge = c.seq WHERE c.request IN {requests})"
)
_PLAIN = (
    "EXISTS (SELECT 1 FROM charges c JOIN entries e ON e.seq = c.seq"
    " WHERE c.seq = ? AND e.hash = ? AND c.request = ?"
    " AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.charge = c.seq)"
    " AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.charge = c.seq))"
)


def remembered(wanted: Wanted, head: tuple[int, str], accounts: dict[str, Account]) -> Known | None:
    """What jobs may go by, if `expect` finds it so; none where too little is remembered."""
    held = wanted.charges.values()
    if not accounts or wanted.accounts.keys() - accounts.keys() or any(isinstance(e, Reserved) for e in held):
        return None
    charges = {each.seq: Standing(each.request, each.head, "", False, None, 0, 0) for each in held}
    return Known(head, True, {name: accounts[name] for name in wanted.accounts}, {}, {}, charges)


SURE = "WHERE current_setting('sfumato.sure') = 'on'"
"""Rows are written on this condition, so that what is not as remembered is no error and writes nothing."""


def expect(db: Connection, wanted: Wanted, head: tuple[int, str]) -> Any:
    """Note in the transaction, and tell, whether all is as remembered."""
    checks, values = [_NEWEST], list[Any](head)
    if wanted.keys:
        payers, keys = zip(*wanted.keys, strict=True)
        checks.append(_UNUSED.format(payers=marks(len(payers)), keys=marks(len(keys))))
        values += [*payers, *keys]
    if wanted.requests:
        checks.append(_UNANSWERED.format(requests=marks(len(wanted.requests))))
        values += wanted.requests
    for each in wanted.charges.values():
        checks.append(_PLAIN)
        values += [each.seq, each.head, each.request]
    found = f"CASE WHEN {' AND '.join(checks)} THEN 'on' ELSE 'off' END"
    return db.execute(f"SELECT set_config('sfumato.sure', {found}, true)", values)
