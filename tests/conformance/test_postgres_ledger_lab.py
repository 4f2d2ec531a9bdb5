"""Labs whose ledger is in PostgreSQL: the same questions, one budget for several machines."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.conformance import servers

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import BudgetError, LedgerError, SfumatoError, UsageError
from sfumato.ledger import PostgresLedger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VISITS = pa.table({"who": [1, 1, 2, 3, 3, 3], "cost": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2, of="people"),
    "columns": {"cost": sf.between(0, 10)},
    "budget": sf.Budget(epsilon=1),
}
COUNT = "SELECT COUNT(*) AS n FROM visits"


def url(user: str = "postgres", schema: str | None = None) -> str:
    """Of a schema that is not there yet. The server asks for no password and is told one all the same."""
    name = schema or f"lab_{secrets.token_hex(6)}"
    return f"postgresql://{user}:a_secret@/postgres?host={servers.running().folder}#{name}"


@pytest.fixture
def address() -> str:
    return url()


@pytest.fixture
def lab(tmp_path: Path, address: str) -> sf.Lab:
    lab = sf.create(tmp_path / "lab", ledger=address)
    lab.register("visits", VISITS, **SAID)
    return lab


def execute(sql: str) -> None:
    import psycopg

    with psycopg.connect(servers.running().address) as connection:
        connection.execute(sql.encode())


def test_a_question_is_charged_there_and_free_the_second_time(lab: sf.Lab, address: str) -> None:
    first = lab.session().sql(COUNT).release(epsilon=0.5)
    assert isinstance(lab.ledger, PostgresLedger)
    assert not list(lab.folder.glob("*.sqlite*"))
    again = sf.open(lab.folder).session().sql(COUNT).release(epsilon=0.5)
    assert again.to_arrow() == first.to_arrow()
    assert again.receipt.replayed
    with pytest.raises(BudgetError, match="SF-B101"):
        sf.open(lab.folder).session().sql("SELECT SUM(cost) AS c FROM visits").release(epsilon=0.6)
    verified = sf.open(lab.folder).ledger.verify()
    assert (verified.charges, verified.releases) == (1, 1)


def test_the_password_is_in_one_file_that_only_the_owner_reads(lab: sf.Lab) -> None:
    holding = [path for path in lab.folder.rglob("*") if path.is_file() and b"a_secret" in path.read_bytes()]
    assert [path.name for path in holding] == ["ledger.json"]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600


def test_copies_of_the_folder_share_one_budget(lab: sf.Lab, tmp_path: Path) -> None:
    """Two machines with two processes each ask a hundred different questions of a fiftieth each."""
    shutil.copytree(lab.folder, tmp_path / "copy")

    def spend(folder: Path, me: int) -> int:
        session, granted = sf.open(folder).session(), 0
        for number in range(25):
            query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > {me + number / 100}")
            try:
                query.release(epsilon=0.02)
            except BudgetError:
                continue
            granted += 1
        return granted

    folders = [lab.folder, tmp_path / "copy"] * 2
    children = [in_child(lambda me=me: spend(folders[me], me)) for me in range(4)]
    granted = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sum(granted) == lab.ledger.verify().releases == 50
    with pytest.raises(BudgetError):
        sf.open(tmp_path / "copy").session().sql(COUNT).release(epsilon=0.02)


def in_child(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:
            os._exit(255)
    return pid


def test_another_ledger_at_the_address_is_not_taken_for_it(lab: sf.Lab, address: str) -> None:
    schema = address.partition("#")[2]
    execute(f"DROP SCHEMA {schema} CASCADE")
    PostgresLedger.create(servers.running().address, schema=schema).close()
    with pytest.raises(LedgerError, match="SF-L121"):
        sf.open(lab.folder)


def test_a_ledger_that_is_gone_is_missed(lab: sf.Lab, address: str) -> None:
    execute(f"DROP SCHEMA {address.partition('#')[2]} CASCADE")
    with pytest.raises(LedgerError, match="SF-L103"):
        sf.open(lab.folder)
    (lab.folder / "ledger.json").unlink()
    with pytest.raises(LedgerError, match="SF-L106"):
        sf.open(lab.folder)


def test_a_new_address_is_noted_if_it_leads_to_the_same_ledger(lab: sf.Lab, address: str) -> None:
    schema = address.partition("#")[2]
    execute(f"ALTER SCHEMA {schema} RENAME TO moved_{schema}")
    with pytest.raises(LedgerError, match="SF-L103"):
        sf.open(lab.folder)
    sf.create(lab.folder.parent / "other", ledger=url(schema=f"other_{schema}"))
    with pytest.raises(LedgerError, match="SF-L121"):
        sf.open(lab.folder, ledger=url(schema=f"other_{schema}"))
    new = url(schema=f"moved_{schema}").replace("a_secret", "another_secret")
    assert sf.open(lab.folder, ledger=new).ledger.verify().entries == 3
    assert sf.open(lab.folder).ledger.verify().entries == 3
    assert "another_secret" in (lab.folder / "ledger.json").read_text()


def test_an_empty_ledger_made_for_a_writer_is_taken_over(tmp_path: Path) -> None:
    role, schema = f"clerk_{secrets.token_hex(4)}", f"clerks_{secrets.token_hex(4)}"
    execute(f"CREATE ROLE {role} LOGIN")
    PostgresLedger.create(servers.running().address, schema=schema, writer=role).close()
    lab = sf.create(tmp_path / "lab", ledger=url(role, schema))
    lab.register("visits", VISITS, **SAID)
    lab.session().sql(COUNT).release(epsilon=0.5)
    assert lab.ledger.verify().releases == 1
    with pytest.raises(UsageError, match=r"SF-L304.*another lab"):
        sf.create(tmp_path / "second", ledger=url(role, schema))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("mysql://a_secret@somewhere/db", "SF-C201"),
        ("postgresql://u:a_secret@h/db?nonsense=a_secret", "SF-C201"),
        ("postgresql://u:a_secret@[broken/db", "SF-C201"),
        ("postgresql://u:a_secret@/nowhere?host=/nowhere", "SF-L106"),
        ("postgresql://u:a_secret@/db?host=/nowhere#No Schema", "SF-L302"),
    ],
)
def test_what_cannot_be_opened_is_refused_without_its_password(tmp_path: Path, wrong: str, code: str) -> None:
    with pytest.raises(SfumatoError, match=code) as refused:
        sf.create(tmp_path / "lab", ledger=wrong)
    error: BaseException | None = refused.value
    while error is not None:
        assert "a_secret" not in str(error)
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__
    sf.create(tmp_path / "lab")


def test_a_lab_with_a_file_has_no_address(tmp_path: Path, address: str) -> None:
    sf.create(tmp_path / "lab")
    with pytest.raises(UsageError, match="SF-U104"):
        sf.open(tmp_path / "lab", ledger=address)


def test_what_stewards_and_auditors_type(tmp_path: Path, address: str) -> None:
    lab, receipt = tmp_path / "lab", tmp_path / "receipt.json"

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)

    assert run("init", lab, "--ledger", address).exit_code == 0
    sf.open(lab).register("visits", VISITS, **SAID)
    asked = run("ask", COUNT, "--epsilon", "0.5", "--lab", lab, "--json")
    assert json.loads(asked.stdout)["receipt"]["entry"] == 4
    assert run("ledger", "verify", "--lab", lab).stdout.startswith("5 entries hold, 1 of 1 charges answered")
    assert run("ledger", "receipt", "--output", receipt, "--lab", lab).exit_code == 0
    assert "signed by this ledger" in run("ledger", "check-receipt", receipt, "--lab", lab).stdout
    assert "Recorded in" in run("ledger", "moved", address, "--lab", lab).stdout
    for copying in (["backup", tmp_path / "copy"], ["restore", tmp_path / "copy"]):
        refused = run("ledger", *copying, "--lab", lab)
        assert (refused.exit_code, "SF-U104" in refused.stderr) == (2, True)
