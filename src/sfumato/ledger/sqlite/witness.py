"""The witness beside a SQLite ledger: an empty file whose name says where the chain ends.

Copying yesterday's files over today's keeps which files they are, so nothing in them shows it. But it leaves
names behind that yesterday did not have. So one file is renamed at every commit, and the mark notes which
file that is. The rename is not waited for: after a power failure the name may be an older one, which also
holds.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.ledger import tables
from sfumato.ledger.failures import require_same_ledger, unconfirmed_error
from sfumato.ledger.sqlite.files import identify_birth

if TYPE_CHECKING:
    from sfumato.ledger.tables import SqlConnection

End = tuple[int, str]
"""Number and hash of the newest entry of a chain."""

_INFIX = ".at-"
_END = re.compile(r"([0-9]{12})-([0-9a-f]{64})")


class Witness:
    """The witness of one ledger. Whoever changes it holds the lock of the ledger's mark."""

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger
        self._stem = f"{ledger}{_INFIX}"

    def list_ends(self) -> list[End]:
        """Return what the names say of all files that are, or were put here as, witnesses."""
        folder, stem = os.path.split(self._stem)
        names = (name[len(stem) :] for name in os.listdir(folder) if name.startswith(stem))
        found = filter(None, map(_END.fullmatch, names))
        return sorted((int(each[1]), each[2]) for each in found)

    def find_lost(self, db: SqlConnection) -> End | None:
        """Return an entry that a name tells of and the ledger lacks."""
        ends = self.list_ends()
        return next((end for end in ends if end[0] and not tables.has_entry(db, *end)), None)

    def is_at(self, end: End, noted: object) -> bool:
        """Return whether there is one witness, the one that the mark has noted, and it names this entry."""
        return self.list_ends() == [end] and self.find(noted) == end

    def find(self, noted: object) -> End | None:
        """Return the name of the file that the mark has noted. A copy is another file."""
        for end in self.list_ends():
            # Another process may rename it meanwhile; whoever has to be sure holds the lock.
            with suppress(FileNotFoundError):
                if list(identify_birth(self._name(end))) == noted:
                    return end
        return None

    def create(self, end: End) -> list[int]:
        """Make a new file the witness, and return what the mark has to note of it."""
        draft = f"{self._ledger}.{secrets.token_hex(4)}.new"
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.rename(draft, self._name(end))
        return list(identify_birth(self._name(end)))

    def remove_others(self, end: End) -> None:
        """Remove every file but the one with this name."""
        for other in self.list_ends():
            if other != end:
                os.unlink(self._name(other))

    def move(self, start: End, end: End, noted: list[int]) -> None:
        """Let the name tell of a newer entry, which the ledger holds."""
        try:
            if not self._rename(start, end, noted):
                # A process was killed before it could do this. If the name tells of a newer entry, older
                # files were put in the place of those that held it.
                found = self.find(noted)
                known = found is not None and found[0] < start[0]
                require_same_ledger(known, "the witness beside it is another file, or tells of later entries")
                os.rename(self._name(found or start), self._name(end))
        except OSError as error:
            raise unconfirmed_error() from error

    def _rename(self, start: End, end: End, noted: list[int]) -> bool:
        """Rename the file of this name. Returns whether it was there, and the one that the mark has noted."""
        name = self._name(end)
        try:
            os.rename(self._name(start), name)
        except FileNotFoundError:
            return False
        return os.stat(name).st_ino == noted[0]

    def carry_to(self, ledger: str) -> None:
        """Put witnesses of the same names beside a copy of the ledger."""
        other = Witness(ledger)
        for end in self.list_ends():
            other.create(end)

    def _name(self, end: End) -> str:
        # Of the same length for every entry, so that the folder does not grow.
        return f"{self._stem}{end[0]:012}-{end[1]}"
