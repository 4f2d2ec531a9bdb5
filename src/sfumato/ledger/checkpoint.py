"""Checkpoints: books on disk, so that a ledger opens without deciding every entry again.

A checkpoint names the entry that it was made after. Whoever uses it hashes the chain up to that entry again
and compares, so an old entry that was changed is still noticed; only the decisions are not repeated. It is
sealed with the ledger's signing key, and books that were made or changed by someone else are not used.
"""

from __future__ import annotations

import hmac
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.files.durable import replace_file
from sfumato.ledger.books import AccountState, Books, Reservation
from sfumato.privacy.account import Caps, Cost
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from pathlib import Path

STEP = 5000
"""Entries after which a new checkpoint is worth its writing.

Replaying so many takes a tenth of a second (`benchmarks/ledger.py`). No privacy depends on it.
"""

_TITLE = b"sfumato books 3\n"


def save_books(path: Path, key: bytes, books: Books) -> None:
    """Write a checkpoint. If the disk refuses, there is none, and the next start takes longer."""
    content = json.dumps(_write(books), separators=(",", ":")).encode()
    with suppress(OSError):
        replace_file(path, _seal(key, content) + content, private=True)


def load_books(path: Path, key: bytes) -> Books | None:
    """Return the books of a checkpoint, or None if there is none that was sealed with this key."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    seal, content = data[:32], data[32:]
    return _read(json.loads(content)) if hmac.compare_digest(seal, _seal(key, content)) else None


def _seal(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, _TITLE + content, "sha256")


def _write(books: Books) -> dict[str, Any]:
    """Return the books as columns, which are read back faster than rows."""
    charges = books.charges.values()
    return {
        "end": [books.seq, books.head],
        "lab": books.lab,
        "snapshots": books.snapshots,
        "accounts": {name: _write_account(each) for name, each in books.accounts.items()},
        "charges": [list(books.charges), *(list(column) for column in zip(*charges, strict=True))],
        "heads": [[charge, head] for charge, head in books.heads.items() if head],
        "releases": [list(books.releases), *map(list, zip(*books.releases.values(), strict=True))],
        "reservations": [
            [charge, each.head, each.accounts, each.step_cost.to_dict(), *each.counts]
            for charge, each in books.reservations.items()
        ],
        "unread": [
            [list(asked), [[charge, cost.to_dict()] for charge, cost in given_up]]
            for asked, given_up in books.unread.items()
        ],
    }


def _read(fields: dict[str, Any]) -> Books:
    seq, head = fields["end"]
    numbers, requests, payers, keys = fields["charges"] if len(fields["charges"]) > 1 else ((), (), (), ())
    charges = dict(zip(numbers, zip(requests, payers, keys, strict=True), strict=True))
    answered_charges, *released = fields["releases"]
    releases = dict(zip(answered_charges, zip(*released, strict=True), strict=True))
    # The first answer to a question is the one that is kept, so later ones are overwritten here.
    answered = {charges[charge][0]: charge for charge in reversed(answered_charges)}
    return Books(
        seq=seq,
        head=head,
        accounts={name: _read_account(*parts) for name, parts in fields["accounts"].items()},
        charges=charges,
        heads=dict.fromkeys(charges, "") | dict(fields["heads"]),
        releases=releases,
        answered=answered,
        keys={(who, key): number for number, (_, who, key) in charges.items() if key is not None},
        reservations={charge: _read_reservation(*rest) for charge, *rest in fields["reservations"]},
        unread={tuple(asked): _read_given_up(given_up) for asked, given_up in fields["unread"]},
        snapshots=fields["snapshots"],
        lab=fields["lab"],
    )


def _write_account(account: AccountState) -> list[Any]:
    filters = account.caps.to_dict()
    terms = [account.terms, account.kind, account.budget.to_dict()]
    return [*terms, filters, account.spent.to_dict(), account.neighbours]


def _read_account(
    terms: int,
    kind: str,
    budget: dict[str, Any],
    filters: dict[str, Any],
    spent: dict[str, Any],
    named: str | None,
) -> AccountState:
    caps = Caps.from_dict(filters)
    return AccountState(terms, kind, Budget.from_dict(budget), caps, Cost.from_dict(spent), named)


def _read_reservation(head: str, accounts: list[str], cost: dict[str, Any], *counts: int) -> Reservation:
    return Reservation(head, tuple(accounts), Cost.from_dict(cost), *counts)


def _read_given_up(given_up: list[list[Any]]) -> tuple[tuple[int, Cost], ...]:
    return tuple((charge, Cost.from_dict(cost)) for charge, cost in given_up)
