"""Every file that must outlive a crash is synced, and so is the folder that names it, in that order."""

from __future__ import annotations

import os
import re
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.files.durable import create_private_file, replace_file, replace_json
from sfumato.ledger import SqliteLedger
from sfumato.ledger.location import write_note
from sfumato.ledger.postgres.address import PostgresAddress
from sfumato.ledger.sqlite import mark
from sfumato.ledger.sqlite.backup import back_up_ledger, restore_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(sf.__file__).parent


class Disk:
    """Records which files and folders are synced, and under which names files appear."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []
        """What happened, to which inode, and for a new name, the path."""

    def record(self, patch: pytest.MonkeyPatch) -> None:
        fsync, link, replace, opened = os.fsync, os.link, os.replace, os.open

        def recorded_fsync(descriptor: int) -> None:
            fsync(descriptor)
            self.calls.append(("sync", os.fstat(descriptor).st_ino, ""))

        def naming(call: Any) -> Any:
            def recorded(source: Any, target: Any, **options: Any) -> None:
                call(source, target, **options)
                self.calls.append(("name", os.stat(target).st_ino, str(target)))

            return recorded

        def recorded_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            descriptor = opened(path, flags, *rest, **options)
            if flags & os.O_EXCL and not str(path).endswith(".new"):
                # An empty file has no content to sync; a database writes its own.
                inode = os.fstat(descriptor).st_ino
                self.calls += [("sync", inode, ""), ("name", inode, str(path))]
            return descriptor

        patch.setattr(os, "open", recorded_open)
        patch.setattr(os, "fsync", recorded_fsync)
        patch.setattr(mark, "_sync", recorded_fsync)
        patch.setattr(os, "link", naming(link))
        for name in ("replace", "rename"):
            patch.setattr(os, name, naming(replace))

    def require_durable(self, *paths: Path) -> None:
        """Each file's content was synced before it got its name, and its folder after that."""
        for path in paths:
            named = [i for i, call in enumerate(self.calls) if call[0] == "name" and call[2] == str(path)]
            assert named, f"{path.name} was written by other means"
            first, last, inode = named[0], named[-1], path.stat().st_ino
            assert ("sync", self.calls[first][1], "") in self.calls[:first], f"{path.name}: content"
            assert ("sync", inode, "") in self.calls[:last], f"{path.name}: content"
            folder = path.parent.stat().st_ino
            assert ("sync", folder, "") in self.calls[last:], f"{path.name}: folder"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    with monkeypatch.context() as patch:
        disk.record(patch)
        yield disk


def test_the_files_of_a_lab_are_durable(disk: Disk, tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "labs" / "lab")
    for folder in (tmp_path, tmp_path / "labs"):
        assert ("sync", folder.stat().st_ino, "") in disk.calls, "a new folder has a name too"
    rows = pa.table({"who": [1, 2], "cost": [1.0, 2.0]})
    told: dict[str, Any] = {"unit": sf.Unit("who", max_rows=1), "columns": {"cost": sf.between(0, 9)}}
    lab.register("visits", rows, **told, budget=sf.Budget(4))
    lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    lab.ledger.close()
    files = [path for path in lab.folder.rglob("*") if path.is_file() and path.stat().st_size]
    expected = {"catalog.json", "published.json", "ranking.key", "ledger.sqlite", "ledger.sqlite.key"}
    assert expected < {path.name for path in files}, "and a snapshot; locks hold nothing"
    disk.require_durable(*files)


def test_the_address_of_a_ledger_is_durable_and_private(disk: Disk, tmp_path: Path) -> None:
    address = PostgresAddress("postgresql://user:secret@host/database", "sfumato_ledger")
    write_note(tmp_path, address, "identity")
    disk.require_durable(tmp_path / "ledger.json")
    assert stat.S_IMODE((tmp_path / "ledger.json").stat().st_mode) == 0o600


def test_the_address_of_a_table_is_durable_and_private(disk: Disk, tmp_path: Path) -> None:
    """It is noted before the server is reached, and nobody listens at this address.

    `missing` is declared, because else the server would be asked first whether the column is NOT NULL.
    """
    pytest.importorskip("psycopg", reason="servers are reached with the postgres extra")
    lab = sf.create(tmp_path / "lab")
    told: dict[str, Any] = {
        "unit": sf.Unit("who", max_rows=1),
        "columns": {"cost": sf.between(0, 9, missing=0)},
    }
    with pytest.raises(SfumatoError):
        lab.register("visits", "postgresql://user@127.0.0.1:1/none#visits", **told, budget=sf.Budget(4))
    addresses = tmp_path / "lab" / "databases.json"
    disk.require_durable(addresses)
    assert stat.S_IMODE(addresses.stat().st_mode) == 0o600


def test_a_saved_model_is_durable(disk: Disk, tmp_path: Path) -> None:
    model = sf.learn.GaussianNB(epsilon=1, bounds=(0, 1), classes=[0, 1])
    model.fit(np.array([[0.1], [0.9]]), np.array([0, 1]))
    path = tmp_path / "model.npz"
    path.write_bytes(b"an older model")
    model.save(path)
    disk.require_durable(path)


def test_a_restored_ledger_is_durable(disk: Disk, tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite"
    with closing(SqliteLedger.create(path)) as ledger:
        ledger.open_account("population:patient_id", sf.Budget(1))
        back_up_ledger(ledger, copy)
    disk.calls.clear()
    restore_ledger(path, copy)
    disk.require_durable(path)


def test_only_this_room_syncs_files() -> None:
    """So that a new file cannot be written with half of the care."""
    calls = re.compile(r"\bos\.(fsync|fdatasync|replace|link)\(")
    found = {
        file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py") if calls.search(file.read_text())
    }
    assert found - {"ledger/sqlite/backup.py"} == {"files/durable.py"}


# ---- what each writer promises -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "note.json"
    replace_json(path, {"n": 1})

    def fail(*_: object) -> None:
        raise OSError("disk error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="disk error"):
            replace_json(path, {"n": 2})
    assert path.read_text() == '{\n "n": 1\n}'
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_private_file(path, b"first")
    with pytest.raises(FileExistsError):
        create_private_file(path, b"second")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"first", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "address"
    path.write_text("open to all")
    path.chmod(0o666)
    replace_file(path, b"secret", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writers_at_the_same_time_do_not_mix_their_content(tmp_path: Path) -> None:
    path = tmp_path / "note"
    contents = [bytes([65 + n]) * 10_000 for n in range(8)]
    threads = [threading.Thread(target=replace_file, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents


def test_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(b"old")
    path.chmod(0o600)
    replace_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_drafts_of_killed_writers_are_removed_and_those_at_work_are_not(tmp_path: Path) -> None:
    path, old, young = (tmp_path / name for name in ("a.json", "a.json.1234.new", "a.json.5678.new"))
    old.write_text("a password")
    young.write_text("half of a file")
    os.utime(old, (0, 0))
    replace_json(path, {})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "a.json.5678.new"]


def test_a_ledger_is_backed_up_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    with closing(SqliteLedger.create(tmp_path / "ledger.sqlite")) as ledger:
        monkeypatch.setattr(os, "link", refuse)
        back_up_ledger(ledger, tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").stat().st_size > 0


def test_a_model_is_written_to_a_pipe(tmp_path: Path) -> None:
    """A rename would put a file in the place of the pipe, and its reader would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    model = sf.learn.PCA(1, epsilon=1e4, bounds=(-1, 1)).fit(np.zeros((50, 1)))
    writer = threading.Thread(target=model.save, args=(tmp_path / "pipe",))
    writer.start()
    assert (tmp_path / "pipe").read_bytes().startswith(b"PK")
    writer.join()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
