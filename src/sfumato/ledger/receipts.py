"""Signed heads: what an outsider keeps, and what shows that a ledger was set back.

The key is 32 random bytes in a file beside the ledger, readable by its owner alone. Who lacks it cannot make
a receipt, so a signed receipt whose entry the ledger lacks proves that the ledger is older than it was.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import LedgerError, UsageError, missing_extra
from sfumato.files.durable import create_private_file
from sfumato.ledger.api import is_digest
from sfumato.ledger.chain import read
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from sfumato.ledger.api import Ledger

_SEED = 32


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The hash of an entry, which seals everything up to it, with an Ed25519 signature. In hexadecimal."""

    entry: int
    head: str
    public_key: str
    signature: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return canonical_json(self.to_dict())

    def genuine(self) -> bool:
        """Whether whoever holds the key has signed this."""
        key_type = _ed25519().Ed25519PublicKey
        from cryptography.exceptions import InvalidSignature

        try:
            key = key_type.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), _text(self.entry, self.head))
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Key:
    """Signs heads. Its bytes appear nowhere but in their file."""

    path: Path

    @classmethod
    def beside(cls, ledger: str) -> Self:
        return cls(Path(f"{ledger}.key"))

    def make(self) -> None:
        """Random bytes under this name, all at once, unless someone was faster."""
        try:
            with suppress(FileExistsError):
                create_private_file(self.path, secrets.token_hex(_SEED).encode())
        except OSError as error:
            raise _unreadable() from error

    def public_key(self) -> str:
        return self._pair()[1]

    def sign(self, entry: int, head: str) -> SignedHead:
        private, public = self._pair()
        return SignedHead(entry, head, public, private.sign(_text(entry, head)).hex())

    def _pair(self) -> tuple[Any, str]:
        """A lost key is missed and not made anew: receipts with another key would speak for nobody."""
        if not _installed():
            _ed25519()
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise LedgerError(
                "SF-L123",
                "The ledger's signing key is not there.",
                try_="put its copy back; or sfumato ledger new-key, and tell all who know the old one",
            ) from None
        except OSError as error:
            raise _unreadable() from error
        return _loaded(self.path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _loaded(path: Path, inode: int, changed: int) -> tuple[Any, str]:
    """Read once, as long as the same file lies there."""
    try:
        private = _ed25519().Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text("ascii")))
    except (OSError, ValueError) as error:
        raise _unreadable() from error
    return private, str(private.public_key().public_bytes_raw().hex())


@cache
def _installed() -> bool:
    return find_spec("cryptography") is not None


@dataclass(frozen=True, slots=True)
class Checked:
    """A receipt that the ledger bears out."""

    entry: int
    head: str
    signed: str

    def __str__(self) -> str:
        return f"The ledger holds entry {self.entry} of this receipt ({self.signed})."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(ledger: Ledger, text: str, key: Key | None = None) -> Checked:
    """Hold a receipt against a ledger: a signed head, an answer's receipt, or an answer with its receipt.

    `key` is the ledger's where it does not lie beside it.
    """
    fields = _fields(text)
    whose = ledger if key is None else key
    signed = _signed(whose.public_key, fields) if "signature" in fields else "not signed"
    entry = ledger.holds(fields["head"])
    if entry is None:
        raise LedgerError(
            "SF-L113",
            "The ledger lacks the entry of this receipt: an old copy was put back, or it is another ledger.",
            receipt=signed,
            try_="end every process that uses it, and put back the newest copy",
        )
    return Checked(entry, fields["head"], signed)


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = read(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_receipt() from error
    inner = fields.get("receipt", fields)
    signed = inner.get("signed", inner) if isinstance(inner, dict) else None
    if not isinstance(signed, dict) or not is_digest(signed.get("head")):
        raise _no_receipt()
    return signed


def _signed(public_key: Callable[[], str], fields: dict[str, Any]) -> str:
    parts = [fields.get(name) for name in ("entry", "head", "public_key", "signature")]
    if not isinstance(parts[0], int) or not all(isinstance(part, str) for part in parts[1:]):
        raise _no_receipt()
    head = SignedHead(*parts)  # type: ignore[arg-type]
    if not head.genuine():
        raise LedgerError("SF-L114", "The signature of this receipt is wrong.", key=head.public_key)
    try:
        return "signed by this ledger" if head.public_key == public_key() else "signed with another key"
    except LedgerError:
        return f"signed with {head.public_key}; this ledger's own key is not there"


def _text(entry: int, head: str) -> bytes:
    return f"sfumato head 1\n{entry}\n{head}".encode()


def _ed25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("receipts", "SF-L307", "Signatures need the cryptography package.") from None
    return ed25519  # type: ignore[no-any-return,unused-ignore]


def _unreadable() -> LedgerError:
    return LedgerError("SF-L115", "The ledger's signing key cannot be read or written.")


def _no_receipt() -> UsageError:
    return UsageError("SF-L308", "This is not a receipt.", try_="sfumato ledger receipt --output FILE")
