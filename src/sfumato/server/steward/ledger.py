"""The ledger as auditors see it: its entries, whether it holds, and its export."""

from __future__ import annotations

import io
import json
import tempfile
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from sfumato.server.context import ServerContext

_CHUNK = 65_536


def list_entries(context: ServerContext, after: int, limit: int) -> dict[str, Any]:
    """Return entries after a number, oldest first, and the number to go on from; None at the end."""
    found = list(islice(context.lab.ledger.read_entries(after), limit))
    entries = [
        {
            "entry": each.seq,
            "kind": each.kind,
            "about": each.summarize(),
            "body": json.loads(each.body),
            "previous": each.prev,
            "hash": each.hash,
        }
        for each in found
    ]
    return {"entries": entries, "next": found[-1].seq if len(found) == limit else None}


def verify_ledger(context: ServerContext) -> dict[str, Any]:
    """Verify every hash, total and stored answer, and return what the ledger holds."""
    return context.lab.verify().to_dict()


def export_ledger(context: ServerContext) -> Iterator[bytes]:
    """Return the chain as JSON lines, in parts. Every entry is checked before the first part is returned."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  closed when all parts are sent
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        context.lab.ledger.export(text)
        text.detach()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return _read_parts(file)


def _read_parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_CHUNK):
            yield part
