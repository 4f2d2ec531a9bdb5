"""Receipts: what an outsider keeps to notice that a ledger was set back to an older copy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.api import is_digest
from sfumato.ledger.chain import read_body
from sfumato.ledger.receipts.signing import SignedHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.api import Ledger
    from sfumato.ledger.receipts.signing import SigningKey


@dataclass(frozen=True, slots=True)
class CheckedReceipt:
    """A receipt whose entry the ledger holds."""

    entry: int
    head: str
    signed: str
    """Who signed the receipt, for people to read."""

    def __str__(self) -> str:
        return f"The ledger holds entry {self.entry} of this receipt ({self.signed})."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_receipt(ledger: Ledger, text: str, key: SigningKey | None = None) -> CheckedReceipt:
    """Look up a receipt in a ledger: a signed head, an answer's receipt, or an answer with its receipt.

    `key` is the ledger's signing key where it does not lie beside the ledger.
    """
    fields = _find_head(text)
    read_key = ledger.read_public_key if key is None else key.read_public_key
    signed = _check_signature(read_key, fields) if "signature" in fields else "not signed"
    entry = ledger.find_entry(fields["head"])
    if entry is None:
        raise LedgerError(
            "SF-L132",
            "The ledger lacks the entry of this receipt: an old copy was restored, or it is another ledger.",
            receipt=signed,
            try_="end every process that uses it, and restore the newest copy",
        )
    return CheckedReceipt(entry, fields["head"], signed)


def _find_head(text: str) -> dict[str, Any]:
    """Return the part of a receipt or answer that names the hash of an entry."""
    try:
        fields = read_body(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_receipt_error() from error
    # An answer holds its receipt, and a receipt its signed head, which is the part that others believe.
    inner = fields.get("receipt", fields)
    signed = inner.get("signed", inner) if isinstance(inner, dict) else None
    if not isinstance(signed, dict) or not is_digest(signed.get("head")):
        raise _no_receipt_error()
    return signed


def _check_signature(read_key: Callable[[], str], fields: dict[str, Any]) -> str:
    """Describe who signed, or raise if the signature is wrong."""
    parts = [fields.get(name) for name in ("entry", "head", "public_key", "signature")]
    if not isinstance(parts[0], int) or not all(isinstance(part, str) for part in parts[1:]):
        raise _no_receipt_error()
    head = SignedHead(*parts)  # type: ignore[arg-type]
    if not head.is_genuine():
        raise LedgerError("SF-L114", "The signature of this receipt is wrong.", key=head.public_key)
    # A ledger without a key can still be compared with receipts of the key it had.
    try:
        return "signed by this ledger" if head.public_key == read_key() else "signed with another key"
    except LedgerError:
        return f"signed with {head.public_key}; this ledger's own key is missing"


def _no_receipt_error() -> UsageError:
    return UsageError("SF-L114", "This is not a receipt.", try_="sfumato ledger receipt --output FILE")
