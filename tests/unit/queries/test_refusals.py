"""What is not on the closed list is refused, each time with the same text, before anything could be charged.

The files in `refusals` hold blocks of a question and the whole error it gets. After a change of wording,
`pytest tests/unit/queries --record` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlglot

from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_question
from unit.queries.test_plans import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Catalog, Table

    Tables = Callable[[str], Table]

FOLDER = Path(__file__).with_name("refusals")
FILES = sorted(FOLDER.glob("*.txt"))
END = "\n----\n"
SPEND = PureSpend(Fraction(1), Fraction(1, 10**6))


@pytest.fixture
def tables(catalog: Catalog, file: Path) -> Tables:
    """One table, of which most is asked; or many."""
    return catalog.find_table if file.stem == "one" else TABLES.__getitem__


def _blocks(file: Path) -> list[tuple[str, str]]:
    parts = (part.partition("\n=>\n") for part in file.read_text(encoding="utf-8").split(END))
    return [(asked.strip("\n"), refused.strip("\n")) for asked, _, refused in parts if asked.strip()]


def _refusal(tables: Tables, sql: str) -> str:
    try:
        plan_question(tables, parse_question(sql), SPEND)
    except PolicyError as refusal:
        return str(refusal)
    return "answered"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_refused_with_its_text(file: Path, tables: Tables, pytestconfig: pytest.Config) -> None:
    got = [(sql, _refusal(tables, sql)) for sql, _ in _blocks(file)]
    if pytestconfig.getoption("--record"):
        file.write_text(END.join(f"{sql}\n=>\n{refused}" for sql, refused in got) + "\n", encoding="utf-8")
    assert got == _blocks(file)


def test_there_are_enough_and_all_are_coded() -> None:
    blocks = [block for file in FILES for block in _blocks(file)]
    assert len(blocks) >= 160
    assert all(refused.startswith("SF-Q") for _, refused in blocks)
    assert len({asked for asked, _ in blocks}) == len(blocks)


@pytest.mark.parametrize(
    "text", ["x" * 20_001, "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 200 + "age = 1", 7, None]
)
def test_absurd_texts_are_refused(text: object) -> None:
    with pytest.raises(PolicyError) as refusal:
        parse_question(text)  # type: ignore[arg-type]
    assert refusal.value.code in {"SF-Q113", "SF-Q101"}


def test_the_parser_prints_no_warnings_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PolicyError):
        parse_question("EXPLAIN SELECT 1")
    assert not caplog.records
    # What others ask of sqlglot is theirs to see.
    sqlglot.parse("EXPLAIN SELECT 1", dialect="duckdb")
    assert caplog.records


def test_a_fork_while_another_thread_imports_a_dialect_leaves_a_child_that_parses() -> None:
    code = """
import os, signal, threading
from sfumato.queries.sql import parse_condition_text, parse_question
from sqlglot import dialects
held, done = threading.Event(), threading.Event()
def hold():
    with dialects._import_lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)
    parse_question("SELECT COUNT(*) FROM t")
    parse_condition_text("x > 1")
    os._exit(0)
status = os.waitpid(child, 0)[1]
done.set()
raise SystemExit(status != 0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
