"""A folder that is no lab, or no longer: every error has a code, and a next step that does not lead back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import EngineError, SfumatoError

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 9)}
    lab.register("visits", pa.table({"x": [1]}), unit=sf.ROW, columns=columns, budget=sf.Budget(1))
    lab.ledger.close()
    return lab.folder


def refusal_of(call: object, path: Path) -> SfumatoError:
    with pytest.raises(SfumatoError) as refusal:
        call(path)  # type: ignore[operator]
    return refusal.value


def test_other_files_are_neither_opened_nor_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    created, opened = refusal_of(sf.create, tmp_path), refusal_of(sf.open, tmp_path)
    assert (created.code, opened.code) == ("SF-C118", "SF-C119")
    assert "sf.open(" not in str(created)
    assert "sf.create(" not in str(opened)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_lost_key_is_what_is_asked_for(folder: Path, content: bytes | None) -> None:
    key = folder / "ranking.key"
    before = key.read_bytes()
    key.unlink()
    if content is not None:
        key.write_bytes(content)
    refusal = refusal_of(sf.open, folder)
    assert refusal.code == "SF-C112"
    assert "ranking.key" in str(refusal)
    assert refusal_of(sf.create, folder).code == ("SF-C112" if content is None else "SF-C118")
    key.write_bytes(before)
    assert sf.open(folder).session().sql(COUNT).release(epsilon=0.1)


def test_an_unfinished_lab_is_created_again(tmp_path: Path) -> None:
    (tmp_path / ".creating").mkdir()
    for path in (tmp_path, tmp_path / "new"):
        assert "sf.create(" in str(refusal_of(sf.open, path))
        sf.create(path)


def test_the_key_of_another_lab_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "ranking.key").write_bytes(bytes(32))
    refusal = refusal_of(sf.open, folder)
    assert refusal.code == "SF-L121"
    assert "ranking.key" in str(refusal)


def test_no_lab_is_made_where_no_folder_can_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "lab", tmp_path / ("long" * 100), Path("/proc/self/lab")):
        assert refusal_of(sf.create, path).code == "SF-C118"
    assert refusal_of(sf.open, file).code == refusal_of(sf.open, file / "lab").code == "SF-C119"


@pytest.mark.parametrize("content", [b'{"seconds": 6', b"\xff\xfe\x00", b"[1]", b"{}"])
@pytest.mark.parametrize("name", ["limits.json", "databases.json"])
def test_torn_settings_cost_nothing(folder: Path, name: str, content: bytes) -> None:
    if (name, content) == ("databases.json", b"{}"):
        return  # no databases
    lab = sf.open(folder)
    (folder / name).write_bytes(content)
    for act in (
        lambda: lab.session().sql(COUNT).release(epsilon=0.1),
        (lambda: lab.limits) if name == "limits.json" else (lambda: lab.drop("visits")),
    ):
        with pytest.raises(EngineError, match="SF-C112"):
            act()
    assert lab.ledger.verify().charges == 0
    (folder / name).unlink()
    if name == "limits.json":
        lab.limit_questions(seconds=300)
        lab.session().sql(COUNT).release(epsilon=0.1)
