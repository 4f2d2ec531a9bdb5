"""Signed heads, and the key that signs them.

The key is 32 random bytes in a file beside the ledger that its owner alone can read. Without it nobody can
make a receipt, so a signed receipt whose entry the ledger lacks proves that the ledger was set back.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import LedgerError, missing_extra
from sfumato.files.durable import create_private_file
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from types import ModuleType

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The hash of an entry, which seals everything up to it, with an Ed25519 signature, in hexadecimal."""

    entry: int
    head: str
    public_key: str
    signature: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return canonical_json(self.to_dict())

    def is_genuine(self) -> bool:
        """Return whether the holder of the named key signed exactly this."""
        key_type = _import_ed25519().Ed25519PublicKey  # refuses by name if the package is missing
        from cryptography.exceptions import InvalidSignature

        try:
            key = key_type.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), _signed_text(self.entry, self.head))
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Signs heads. The private bytes are nowhere but in their file."""

    path: Path

    @classmethod
    def beside_ledger(cls, ledger: str) -> Self:
        """Return the key of the SQLite ledger at this path."""
        return cls(Path(f"{ledger}.key"))

    def create(self) -> None:
        """Write a random key, unless there is one already."""
        try:
            # If two processes create the key at once, both go on with the first one's.
            with suppress(FileExistsError):
                create_private_file(self.path, secrets.token_hex(_KEY_BYTES).encode())
        except OSError as error:
            raise _unreadable_key_error() from error

    def derive_secret(self, purpose: str) -> bytes | None:
        """Return secret bytes for one purpose, which need no package, or None if there is no key."""
        try:
            return hmac.digest(self.path.read_bytes(), purpose.encode(), "sha256")
        except OSError:
            return None

    def read_public_key(self) -> str:
        """Return the public key in hexadecimal."""
        return self._load()[1]

    def sign(self, entry: int, head: str) -> SignedHead:
        """Return a signature over the number and the hash of an entry."""
        private, public = self._load()
        return SignedHead(entry, head, public, private.sign(_signed_text(entry, head)).hex())

    def _load(self) -> tuple[Any, str]:
        """Return the private and the public key.

        A lost key is reported and not made again: receipts of another key would convince nobody.
        """
        # Without the package nobody can sign, whether there is a key or not, so that is said first.
        if not _is_installed():
            _import_ed25519()
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise LedgerError(
                "SF-L115",
                "The ledger's signing key is missing.",
                try_="put its copy back; or sfumato ledger new-key, and tell everyone who knows the old one",
            ) from None
        except OSError as error:
            raise _unreadable_key_error() from error
        return _read_pair(self.path, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _read_pair(path: Path, inode: int, changed: int) -> tuple[Any, str]:
    """Read a key file. Inode and time are arguments so that another file at the path is read again."""
    try:
        private = _import_ed25519().Ed25519PrivateKey.from_private_bytes(
            bytes.fromhex(path.read_text("ascii"))
        )
    except (OSError, ValueError) as error:
        raise _unreadable_key_error() from error
    return private, str(private.public_key().public_bytes_raw().hex())


@cache
def _is_installed() -> bool:
    return find_spec("cryptography") is not None


def _import_ed25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("receipts", "Signatures need the cryptography package.") from None
    return ed25519  # type: ignore[no-any-return,unused-ignore]


def _signed_text(entry: int, head: str) -> bytes:
    return f"sfumato head 1\n{entry}\n{head}".encode()


def _unreadable_key_error() -> LedgerError:
    return LedgerError("SF-L115", "The ledger's signing key cannot be read or written.")
