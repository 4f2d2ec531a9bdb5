"""Writes files so that a crash leaves either the old content or the new, and never half of one.

Two things have to reach the disk: the file's content, and the folder's entry that names the file. Without a
sync of the folder, a file can be missing after a power failure, or be the old one again.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EVERYONE = 0o666
"""Permissions before the process's umask is applied, as `open` gives them."""
_OWNER_ONLY = 0o600
_ABANDONED = 60.0
"""Seconds after which a draft has no writer any more; a write takes a fraction of one."""


def replace_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file, or replace it whole. Once this returns, the content survives a crash.

    A private file can be read by its owner alone, from the moment it exists. Another keeps the permissions
    that it has.
    """
    _remove_old_drafts(path)
    with _draft(path, content, _OWNER_ONLY if private else _EVERYONE) as draft:
        if path.exists() and not private:
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        rename_path(draft, path)


def replace_json(path: Path, body: dict[str, Any]) -> None:
    """Write a JSON file that people may read too, or replace it whole."""
    replace_file(path, json.dumps(body, indent=1, ensure_ascii=False).encode())


def create_private_file(path: Path, content: bytes) -> None:
    """Write a new file that its owner alone can read. Raises FileExistsError if there is one already."""
    with _draft(path, content, _OWNER_ONLY) as draft:
        link_draft(draft, path)


def link_draft(draft: Path, path: Path) -> None:
    """Give a file whose content is synced its final name. Raises FileExistsError if the name is taken."""
    # Unlike a rename, a link never overwrites: of two processes that create the file, one is refused.
    os.link(draft, path)
    draft.unlink()
    sync_path(path.parent)


def create_empty_private_file(path: Path) -> None:
    """Create an empty file that its owner alone can read. Raises FileExistsError if there is one already."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))
    sync_path(path.parent)


def create_private_folder(path: Path) -> None:
    """Create a folder that its owner alone can enter, and the folders above it that are missing.

    An existing folder is left as it is. Without a sync of the folders above, everything that is written into
    the new one, however carefully, could be gone after a power failure.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_path(each.parent)


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Keep out every other process that locks this folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def move_files(draft: Path, path: Path, last: str) -> None:
    """Move all files of a folder into another, and remove it. The file called `last` comes last."""
    for file in sorted(draft.iterdir(), key=lambda each: (each.name == last, each.name)):
        sync_path(path)
        rename_path(file, path / file.name)
    draft.rmdir()


def rename_path(draft: Path, path: Path) -> None:
    """Give a file or folder whose content is synced its final name, in place of what had that name."""
    os.replace(draft, path)
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Wait until the disk holds the content of a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_old_drafts(path: Path) -> None:
    """Remove what writers left who were killed: a draft can hold a password that was changed since."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}.*.new"):
        with suppress(FileNotFoundError):
            # A younger one may be that of a writer at work.
            if time.time() - draft.stat().st_mtime > _ABANDONED:
                draft.unlink()


@contextmanager
def _draft(path: Path, content: bytes, permissions: int) -> Iterator[Path]:
    """Yield a synced file beside `path`. It is removed if it still has that name at the end."""
    # The name is random, so that two writers of the same file cannot mix their content.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
