"""What SQLite's log loses comes back from the mark, and a ledger that is shorter than its mark is refused."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import Charge, Charged, SqliteLedger, failpoints
from sfumato.ledger.chain import GENESIS, hash_text
from sfumato.ledger.sqlite import mark as mark_module
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.backup import accept_ledger, restore_ledger
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

    Fork = Callable[[Callable[[], object]], Callable[[], int]]

PEOPLE = "population:patient_id"
HUNDREDTH = price(Pure(Fraction(1, 100)))
QUESTIONS = 12
ENTRIES = 1 + 2 * QUESTIONS


def question(name: str) -> Charge:
    return Charge((PEOPLE,), HUNDREDTH, hash_text(name), {"table": "visits"})


def answer(ledger: SqliteLedger, name: str) -> None:
    charged = ledger.charge(question(name))
    assert isinstance(charged, Charged)
    ledger.release(charged, f"answer to {name}")


class Killed:
    """The files of a ledger whose process was killed, to be put back as they were, each in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(SqliteLedger.create(path)) as ledger:
            ledger.open_account(PEOPLE, Budget(1))
        child = os.fork()
        if child == 0:
            ledger = SqliteLedger.open(path)
            for number in range(QUESTIONS):
                answer(ledger, f"q{number}")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        self.files = {name: self[name].read_bytes() for name in ("", "-wal", ".mark")}
        self.files[".mark"] = self.files[".mark"].rstrip(b"\0")  # without the room for more
        (self.witness,) = path.parent.glob("*.at-*")

    def __getitem__(self, ending: str) -> Path:
        return Path(f"{self.path}{ending}")

    def put_back(self, **changed: bytes | None) -> None:
        self["-shm"].unlink(missing_ok=True)
        for witness in self.path.parent.glob("*.at-*"):
            witness.rename(self.witness)
        for ending, content in {
            **self.files,
            **{_ENDINGS[name]: new for name, new in changed.items()},
        }.items():
            if content is None:
                self[ending].unlink(missing_ok=True)
            else:
                self[ending].write_bytes(content)

    def require_everything(self) -> None:
        """Opens, with every charge and every answer."""
        with closing(SqliteLedger.open(self.path)) as ledger:
            assert ledger.verify().entries == ENTRIES
            assert ledger.read_spent(PEOPLE) == HUNDREDTH * QUESTIONS
            kept = ledger.charge(question(f"q{QUESTIONS - 1}"))
            assert kept.answer == f"answer to q{QUESTIONS - 1}"  # type: ignore[union-attr]

    def require_refusal(self, code: str) -> None:
        for _ in range(2):
            with pytest.raises(LedgerError, match=code):
                SqliteLedger.open(self.path)


_ENDINGS = {"file": "", "log": "-wal", "mark": ".mark"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed") / "ledger.sqlite")


def flip(content: bytes, place: int, bit: int = 1) -> bytes:
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_deleted_log_costs_no_charge(tmp_path: Path, rounds: int, fork: Fork) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger.create(path)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))

    def work(number: int) -> None:
        ledger = SqliteLedger.open(path)
        answer(ledger, f"{number}")
        os._exit(0)  # without closing anything

    for number in range(rounds):
        assert fork(lambda number=number: work(number))() == 0
        Path(f"{path}-wal").unlink()
        with closing(SqliteLedger.open(path)) as ledger:
            assert ledger.verify().entries == 3 + 2 * number
            assert ledger.read_spent(PEOPLE) == HUNDREDTH * (number + 1)


@pytest.mark.parametrize("rounds", [25, pytest.param(600, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_the_log_costs_no_charge(killed: Killed, rounds: int) -> None:
    log, chance = killed.files["-wal"], random.Random(271828)
    for _ in range(rounds):
        killed.put_back(log=flip(log, chance.randrange(len(log)), 1 << chance.randrange(8)))
        killed.require_everything()


@pytest.mark.parametrize("rounds", [15, pytest.param(360, marks=pytest.mark.slow)])
def test_a_power_failure_that_takes_any_part_of_the_log_costs_no_charge(killed: Killed, rounds: int) -> None:
    """The log is never waited for: any of its sectors may be lost, and it may end anywhere."""
    log, chance = killed.files["-wal"], random.Random(161803)
    for _ in range(rounds):
        left = bytearray(log[: chance.randrange(len(log))])
        for sector in range(0, len(left), 512):
            if chance.random() < 0.05:
                left[sector : sector + 512] = bytes(len(left[sector : sector + 512]))
        killed.put_back(log=bytes(left), mark=killed.files[".mark"] + b"\0" * chance.randrange(3000))
        killed.require_everything()


@pytest.mark.parametrize("rounds", [25, pytest.param(600, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_the_mark_costs_no_charge(killed: Killed, rounds: int) -> None:
    mark, chance = killed.files[".mark"], random.Random(314159)
    for _ in range(rounds):
        killed.put_back(mark=flip(mark, chance.randrange(len(mark)), 1 << chance.randrange(8)))
        killed.require_everything()


def test_damage_within_the_mark_and_a_lost_log_are_noticed(killed: Killed) -> None:
    """A record that is whole shows that those before it were there."""
    mark = killed.files[".mark"]
    killed.put_back(log=None, mark=flip(mark, (8192 + len(mark)) // 2))
    killed.require_refusal("SF-L132")


def test_a_torn_record_was_never_told_of(killed: Killed) -> None:
    """The witness is renamed after the record is written: it shows whether someone could have been told."""
    killed.put_back(log=None, mark=killed.files[".mark"][:-5])
    killed.require_refusal("SF-L132")
    killed.witness.rename(f"{killed.path}.at-{0:012}-{GENESIS}")
    with closing(SqliteLedger.open(killed.path)) as ledger:
        assert ledger.verify().entries == ENTRIES - 1


def test_a_ledger_without_its_mark_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    killed = Killed(tmp_path / "ledger.sqlite")
    killed.put_back(log=None)
    with closing(SqliteLedger.open(killed.path)) as ledger:
        receipt = json.dumps({"head": ledger.verify().head})
    for content in (None, b"", b"x" * 9000):
        killed.put_back(mark=content)
        killed.require_refusal("SF-L130")
    with pytest.raises(LedgerError, match="SF-L132"):
        accept_ledger(killed.path)
    assert accept_ledger(killed.path, [receipt]).entries == ENTRIES
    killed.files[".mark"] = killed[".mark"].read_bytes()
    (killed.witness,) = killed.path.parent.glob("*.at-*")
    killed.require_everything()


def test_a_ledger_shorter_than_its_mark_is_refused_and_accepted_only_on_explicit_wish(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger.create(path)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        answer(ledger, "first")
        ledger._database.adopt_mark(missing=False)  # the mark begins anew: it holds no entries
    short = path.read_bytes()
    with closing(SqliteLedger.open(path)) as ledger:
        answer(ledger, "second")
        ledger._database.adopt_mark(missing=False)
        receipt = json.dumps({"head": ledger.verify().head})
    path.write_bytes(short)
    with pytest.raises(LedgerError, match="SF-L132"):
        SqliteLedger.open(path)
    with pytest.raises(LedgerError, match="SF-L132"):
        accept_ledger(path, [receipt])
    assert accept_ledger(path, unproven=True).entries == 3
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.verify().entries == 3


def test_another_chain_of_the_same_length_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with closing(SqliteLedger.create(tmp_path / name)) as ledger:
            ledger.open_account(PEOPLE, Budget(1))
            answer(ledger, name)
    (tmp_path / "one").write_bytes((tmp_path / "two").read_bytes())
    with pytest.raises(LedgerError, match="SF-L132"):
        SqliteLedger.open(tmp_path / "one")


def test_a_copy_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with closing(SqliteLedger.create(tmp_path / "here" / "ledger.sqlite")) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        receipt = json.dumps({"head": ledger.verify().head})
        shutil.copytree(tmp_path / "here", tmp_path / "there")
        for _ in range(2):
            with pytest.raises(LedgerError, match="SF-L131"):
                SqliteLedger.open(tmp_path / "there" / "ledger.sqlite")
        with closing(AuditedLedger.read(tmp_path / "there" / "ledger.sqlite")) as audited:
            assert audited.verify() == ledger.verify()
        answer(ledger, "still the original")
    assert accept_ledger(tmp_path / "there" / "ledger.sqlite", [receipt]).entries == 1
    (tmp_path / "there").rename(tmp_path / "moved")  # which keeps the files, and is no copy
    with closing(SqliteLedger.open(tmp_path / "moved" / "ledger.sqlite")) as ledger:
        assert ledger.verify().entries == 1


def test_older_files_copied_over_the_ledger_are_noticed(tmp_path: Path) -> None:
    """Copying over a file keeps its inode and its time of birth."""
    here, night = tmp_path / "here", tmp_path / "night"
    here.mkdir()
    with closing(SqliteLedger.create(here / "ledger.sqlite")) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
    shutil.copytree(here, night)
    with closing(SqliteLedger.open(here / "ledger.sqlite")) as ledger:
        answer(ledger, "spent")
        receipt = json.dumps({"head": ledger.verify().head})
    (newest,) = here.glob("*.at-*")
    for file in night.iterdir():
        shutil.copyfile(file, here / file.name)
    for act in (SqliteLedger.open, AuditedLedger.read, lambda path: accept_ledger(path, [receipt])):
        with pytest.raises(LedgerError, match="SF-L132"):
            act(here / "ledger.sqlite")
    with pytest.raises(LedgerError, match="SF-L132"):
        restore_ledger(here / "ledger.sqlite", night / "ledger.sqlite")
    newest.unlink()  # the older one is a copy, and not the file that the mark has noted
    with pytest.raises(LedgerError, match="SF-L131"):
        SqliteLedger.open(here / "ledger.sqlite")
    assert accept_ledger(here / "ledger.sqlite", unproven=True).entries == 1
    with closing(SqliteLedger.open(here / "ledger.sqlite")) as ledger:
        answer(ledger, "known to be forgotten")
    assert len(list(here.glob("*.at-*"))) == 1


def test_a_witness_left_behind_catches_up(path: Path, filled: SqliteLedger) -> None:
    """As after a power failure, or a process that was killed after its commit."""
    (name,) = path.parent.glob("*.at-*")
    for opened in (True, False):
        (now,) = path.parent.glob("*.at-*")
        now.rename(f"{path}.at-{0:012}-{GENESIS}")
        if opened:
            SqliteLedger.open(path).close()
            assert name.exists()
        else:
            answer(filled, "next")
    (now,) = path.parent.glob("*.at-*")
    assert f"{filled.verify().entries:012}-{filled.verify().head}" in now.name


def test_a_record_that_cannot_be_read_is_named(path: Path, filled: SqliteLedger) -> None:
    mark, content = filled._database._mark, b"{}"
    mark_module._write(mark._open(), mark._encode_record(content), mark._offset)
    filled.close()
    with pytest.raises(LedgerError, match="SF-L130"):
        SqliteLedger.open(path)


def test_a_mark_that_begins_anew_again_and_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, fork: Fork
) -> None:
    monkeypatch.setattr(mark_module, "LIMIT", 3000)
    with closing(SqliteLedger.create(path)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        for number in range(20):
            answer(ledger, f"{number}")
            with closing(SqliteLedger.open(path)) as other:
                assert other.verify().entries == 3 + 2 * number
    mark = Path(f"{path}.mark")
    assert mark.stat().st_size < 8192 + 3 * 3000

    def killed_at_once() -> None:
        ledger = SqliteLedger.open(path)
        for number in range(20, 24):
            answer(ledger, f"{number}")
        os._exit(0)

    assert fork(killed_at_once)() == 0
    Path(f"{path}-wal").unlink()
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.verify().entries == 49


def test_a_reader_keeps_the_mark_from_beginning_anew_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_module, "LIMIT", 2000)
    with closing(SqliteLedger.create(path, timeout=0)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entries").fetchone()
            for number in range(8):
                answer(ledger, f"{number}")
            reader.execute("COMMIT")
        assert ledger.verify().entries == 17


@pytest.mark.parametrize("moment", ["charge:written", "charge:durable"])
def test_a_process_killed_within_a_commit_leaves_a_ledger_that_goes_on(
    path: Path, ledger: SqliteLedger, fork: Fork, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Also for a process that has it open: what is in the mark alone comes first."""
    append = mark_module.Mark.append

    def die_after(mark: mark_module.Mark, batch: mark_module.MarkedBatch) -> None:
        append(mark, batch)
        os._exit(0)

    def child() -> None:
        if moment == "charge:durable":
            monkeypatch.setattr(mark_module.Mark, "append", die_after)
        else:
            monkeypatch.setattr(failpoints, "reach", lambda name: os._exit(0) if name == moment else None)
        ledger.charge(question("killed"))

    assert fork(child)() == 0
    charged = ledger.charge(question("next"))
    assert isinstance(charged, Charged)
    assert ledger.verify().charges == (2 if moment == "charge:durable" else 1)
    assert ledger.read_spent(PEOPLE) == HUNDREDTH * ledger.verify().charges


def test_a_mark_left_behind_catches_up(path: Path, ledger: SqliteLedger) -> None:
    answer(ledger, "first")
    mark = Path(f"{path}.mark")
    behind = mark.read_bytes()
    answer(ledger, "second")
    ledger.close()
    mark.write_bytes(behind)
    with closing(SqliteLedger.open(path)) as again:
        answer(again, "third")
        answered = again.verify()
        again._database._mark.close()
    path.unlink()
    with closing(SqliteLedger.create(path.with_name("empty"))) as empty:
        empty.close()
    path.with_name("empty").rename(path)  # the mark alone brings everything back
    with closing(SqliteLedger.open(path)) as whole:
        assert whole.verify() == answered


def test_creating_over_the_mark_of_a_deleted_ledger_is_refused(path: Path, filled: SqliteLedger) -> None:
    filled.close()
    path.unlink()
    with pytest.raises(UsageError, match="SF-L304"):
        SqliteLedger.create(path)


@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_whoever_is_killed_while_creating_leaves_room_for_the_next(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        path = tmp_path / f"{number}.sqlite"
        child = os.fork()
        if child == 0:
            calls = [0]

            def die(event: str, _: object, calls: list[int] = calls, number: int = number) -> None:
                calls[0] += event in ("open", "os.link", "os.remove", "sqlite3.connect", "fcntl.flock")
                if calls[0] > number:
                    os._exit(0)

            sys.addaudithook(die)
            SqliteLedger.create(path)
            os._exit(0)
        os.waitpid(child, 0)
        opened = SqliteLedger.open(path) if path.exists() else SqliteLedger.create(path)
        with closing(opened) as ledger:
            ledger.open_account(PEOPLE, Budget(1))


def test_a_ledger_on_a_read_only_medium_can_be_verified(path: Path, filled: SqliteLedger) -> None:
    """Nothing is written beside it, even with a log that only a writer could read."""
    names = sorted(each.name for each in path.parent.iterdir())
    with closing(AuditedLedger.read(path)) as audited:
        assert audited.verify() == filled.verify()
        assert [entry.hash for entry in audited.read_entries()] == [
            entry.hash for entry in filled.read_entries()
        ]
        with pytest.raises(LedgerError, match="SF-L110"):
            audited.charge(question("may not"))
        folder = Path(audited._path).parent
        assert folder.exists()
    assert not folder.exists()
    assert sorted(each.name for each in path.parent.iterdir()) == names


def test_locks_that_do_nothing_are_noticed(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    library, path = tmp_path / "faults.so", tmp_path / "ledger.sqlite"
    source = Path(__file__).parents[1] / "faults.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    SqliteLedger.create(path).close()
    code = """
import ctypes, sys
from sfumato.ledger import SqliteLedger
SqliteLedger.open(sys.argv[1]).close()
ctypes.CDLL(None).fault_locks(1)
try:
    SqliteLedger.open(sys.argv[1])
except Exception as error:
    print(error.code)
"""
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["SF-C211"], done.stderr


def test_a_ledger_that_is_let_go_of_leaves_no_file_open(tmp_path: Path) -> None:
    ledger = SqliteLedger.create(tmp_path / "ledger.sqlite")
    ledger.open_account(PEOPLE, Budget(1))
    assert _list_open(tmp_path)
    del ledger
    gc.collect()
    assert not _list_open(tmp_path)


def _list_open(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open."""
    found = []
    for descriptor in os.listdir("/dev/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/dev/fd/{descriptor}"))
    return [path for path in found if path.startswith(str(folder))]
