"""Two labs that differ by one person, and a watch on all that reaches the engine when they are asked."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audit import replay
from sfumato.curator.answers.quote import Quote
from sfumato.engines import duckdb as engine
from sfumato.errors import SealedError, SfumatoError
from sfumato.errors.codes import CODES
from sfumato.lab.session import Query, Session

SECRET = "SESAME"
"""Every value that nobody may see holds this word: identifiers, undeclared columns, files, settings."""

Ask = Callable[[Session], Query]


# ---- what reaches the engine -------------------------------------------------------------------------------


class Tapped:
    """A DuckDB connection that writes down every text it is given; the rest is the connection's own."""

    def __init__(self, inner: Any, texts: list[str]) -> None:
        self._inner = inner
        self._texts = texts

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._inner, name)
        return self._heard(part) if callable(part) else part

    def __enter__(self) -> Tapped:
        self._inner.__enter__()
        return self

    def __exit__(self, *problem: Any) -> Any:
        return self._inner.__exit__(*problem)

    def _heard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*parts: Any, **named: Any) -> Any:
            self._texts += [part for part in (*parts, *named.values()) if isinstance(part, str)]
            result = call(*parts, **named)
            return Tapped(result, self._texts) if type(result) is type(self._inner) else result

        return heard


_FORBIDDEN = re.compile(
    r"read_|glob|sniff|parquet_|copy|export|import|install|load|attach|detach|\buse\b|pragma|\bset\b|getenv|"
    r"duckdb_|sqlite_|pg_|information_schema|current_|query|execute|macro|create|insert|update|delete|drop|"
    r"alter|call|error|random|nextval|http|s3:|explain|summarize|describe|\bfirst\(|\blast\(|any_value|arg_|list\(|"
    r"string_agg|group_concat|sample",
    re.IGNORECASE,
)
"""Words by which an engine reads something else than the snapshot, or shows single rows of it."""

_ATTACH = re.compile(r"ATTACH '([^']*)' AS \w+ \(READ_ONLY\)")
_SPILL = re.compile(r"SET max_temp_directory_size = '[0-9]+MiB'")
_TEXT = re.compile(r"'([^']*)'")
_NUMBERS = re.compile(r"(?:[0-9a-f\[\], -]|NULL)*|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBERED = re.compile(r"[a-z]{1,8}[0-9]+(_[a-z][0-9]+)?")  # c3, snapshot0, r0_n1
_ESCAPE = " ESCAPE '\\'"  # the one mark of LIKE that is ours
_STRANGE = re.compile(r"[^\x20-\x7e\n]|--|/\*|;|\$|\"|`|\\|\b[0-9]+\.[0-9]|\b[0-9]+[eE][0-9]")


@cache
def own_constants() -> str:
    """Every text that the engine's answering side is written with, docstrings left out."""
    folder = Path(engine.__file__).parent
    preparing = {"prepare.py", "sources.py", "stored.py", "reading.py", "texts.py"}
    files = [
        each
        for each in sorted([*folder.parent.glob("*.py"), *folder.glob("*.py")])
        if each.name not in preparing
    ]
    return "\n".join(text for file in files for text in _constants(ast.parse(file.read_text("utf-8"))))


def _constants(module: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(module))
    notes = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.value


@cache
def own_words() -> frozenset[str]:
    return frozenset(_WORD.findall(own_constants()))


def foreign(sql: str, snapshots: Path) -> str | None:
    """What in a text for the engine is not ours: only our words, stored names, integers, hex digits are."""
    opened = _ATTACH.fullmatch(sql)
    if opened:
        return None if Path(opened[1]).parent == snapshots else "another database"
    if sql in own_constants() or _SPILL.fullmatch(sql):
        return None  # a fixed sentence of ours, such as those that lock the engine
    sql = sql.replace(_ESCAPE, "")
    bare = _TEXT.sub("", sql)
    if found := _STRANGE.search(bare):
        return f"the mark {found[0]!r}"
    for text in _TEXT.findall(sql):
        if not _NUMBERS.fullmatch(text) and f"'{text}'" not in own_constants():
            return f"the text {text!r}"
    words = [word for word in _WORD.findall(bare) if not _NUMBERED.fullmatch(word)]
    strange = [word for word in words if word not in own_words()]
    if strange:
        return f"the word {strange[0]!r}"
    dangerous = _FORBIDDEN.search(bare)
    return f"the word {dangerous[0]!r}" if dangerous else None


# ---- two labs that differ by one person --------------------------------------------------------------------

VISITS: dict[str, Any] = {
    "age": sf.between(0, 110),
    "cost": sf.between(0, 5000),
    "ward": sf.one_of("A", "B", "C"),
    "readmitted": sf.one_of(0, 1),
    "smoker": sf.one_of(True, False),
    "diagnosis": sf.text(),
}
PEOPLE: dict[str, Any] = {"sex": sf.one_of("f", "m"), "height": sf.between(0, 250)}
STAFF: dict[str, Any] = {"salary": sf.between(0, 200_000), "ward": sf.one_of("A", "B", "C")}
ODD = 7
"""The person who is in one lab only; most of their values are extreme, missing or undeclared."""


def visits(people: list[int]) -> pa.Table:
    rows = [_visit(person, turn) for person in people for turn in range(5 if person == ODD else person % 4)]
    names = ("patient_id", "age", "cost", "ward", "readmitted", "smoker", "name", "diagnosis", "rowid")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return pa.table({**columns, "age": pa.array(columns["age"], pa.float64())})


def _visit(person: int, turn: int) -> tuple[Any, ...]:
    who = f"{SECRET}-id-{person}"
    told = (f"{SECRET}-name-{person}", f"{SECRET}-diagnosis-{person}", person)
    if person == ODD:
        odd = (float("nan"), float("inf"), -1e300, None, 109.0)[turn]
        return (who, odd, 4999.0, (f"{SECRET}-ward", "A", None, "C", "\x00")[turn], turn, turn > 2, *told)
    return (who, 20.0 + person, 17.0 * person, "ABC"[(person + turn) % 3], turn % 2, person % 2 == 0, *told)


def people(who: list[int]) -> pa.Table:
    return pa.table(
        {
            "patient_id": [f"{SECRET}-id-{person}" for person in who],
            "sex": ["fm"[person % 2] for person in who],
            "height": [150.0 + person for person in who],
            "ssn": [f"{SECRET}-ssn-{person}" for person in who],
        }
    )


def staff() -> pa.Table:
    ids = range(20)
    return pa.table(
        {
            "staff_id": [f"{SECRET}-staff-{each}" for each in ids],
            "salary": [1000.0 * each for each in ids],
            "ward": ["ABC"[each % 3] for each in ids],
        }
    )


def build(folder: Path, who: list[int], key: bytes) -> sf.Lab:
    """With the same key the same rows are kept of everybody else."""
    lab = sf.create(folder)
    (folder / "ranking.key").write_bytes(key)
    budget, patient = sf.Budget(epsilon=10**9, delta=0.5), sf.Unit("patient_id", max_rows=5, of="patients")
    lab.register("visits", visits(who), unit=patient, columns=VISITS, budget=budget)
    lab.register("people", people(who), unit=patient, columns=PEOPLE)
    lab.register("staff", staff(), unit=sf.Unit("staff_id", max_rows=1), columns=STAFF, budget=budget)
    return lab


# ---- what an attempt came to -------------------------------------------------------------------------------

_SPENDS: tuple[dict[str, Any], ...] = ({"epsilon": 4}, {"epsilon": 4, "delta": 1e-6})


@dataclass(frozen=True, slots=True)
class Planned:
    """The first way to pay that is accepted, and what it would buy."""

    spend: dict[str, Any]
    quote: Quote


@dataclass(slots=True)
class Watch:
    """Asks both labs, and says what came through that must not."""

    labs: tuple[sf.Lab, sf.Lab]
    alone: sf.Lab
    outside: Path
    """The working directory, with files that nobody may read."""
    texts: list[str] = field(default_factory=list)
    answered: int = 0
    refused: int = 0

    def through(self, ask: Ask) -> str | None:
        """None if the attempt was refused in a coded way, or answered like any private question."""
        self.texts.clear()
        before = self._state()
        planned = [_planned(lab, ask) for lab in self.labs]
        told = [_told(each) for each in planned]
        if told[0] != told[1]:
            return f"one person more changes what is said: {told}"
        first = planned[0]
        found = (
            self._answer(ask, first, before) if isinstance(first, Planned) else self._refusal(first, before)
        )
        return found or self._reached() or self._written(before)

    def glanced_through(self, ask: Ask) -> str | None:
        """The same without a neighbour, of a third lab so that the two stay in step: much quicker."""
        self.texts.clear()
        try:
            release = ask(self.alone.session()).release(**_SPENDS[0])
            told = str(release.to_arrow().to_pydict())
        except Exception as problem:
            return self._refusal(problem, self._state())
        self.answered += 1
        return self._reached() or ("the answer shows a secret" if SECRET in told else None)

    def _refusal(self, problem: Exception, before: list[str]) -> str | None:
        self.refused += 1
        if not isinstance(problem, SfumatoError):
            return f"raised {_told(problem)}"
        if problem.code not in CODES or isinstance(problem, SealedError):
            return f"raised {problem.code}"
        if SECRET in said(problem):
            return f"the refusal shows a secret: {said(problem)}"
        return "a refusal was charged" if self._state() != before else None

    def _answer(self, ask: Ask, planned: Planned, before: list[str]) -> str | None:
        """Released on both labs with the same noise: whatever still differs comes from the one person."""
        problems: list[Exception] = []
        shown: list[str] = []

        def asked(lab: sf.Lab) -> Any:
            try:
                release = ask(lab.session()).release(**planned.spend)
            except Exception as problem:
                problems.append(problem)
                raise
            shown.extend(_shows(release))
            return release.to_arrow().to_pydict()

        finding = None
        with suppress(Exception):  # they are in `problems`; a replay of nothing but refusals is one more
            finding = self._replayed(asked, planned.quote)
        if problems:
            return self._refusal(problems[0], before)
        self.answered += 1
        return shown[0] if shown else finding

    def _replayed(self, asked: Callable[[sf.Lab], Any], quote: Quote) -> str | None:
        if quote.free:
            asked(self.labs[0])  # the same rows and sums as in an attempt before, which was replayed
            return None
        return replay(asked, [self.labs], claim=quote.plan.event).finding

    def _reached(self) -> str | None:
        """The labs are asked in turn, so what is opened may lie in the folder of any."""
        folders = [lab.folder / "snapshots" for lab in (*self.labs, self.alone)]
        for sql in self.texts:
            alien = [foreign(sql, folder) for folder in folders]
            if all(alien):
                return f"reached the engine: {alien[0]} in {sql}"
        return None

    def _written(self, before: list[str]) -> str | None:
        return None if before[0] == self._state()[0] else "a file was written"

    def _state(self) -> list[str]:
        files = len(list(self.outside.rglob("*")))
        return [str(files), *(str(lab.ledger.read_spent("population:patients")) for lab in self.labs)]


def _planned(lab: sf.Lab, ask: Ask) -> Planned | Exception:
    try:
        query = ask(lab.session())
        repr(query)
    except Exception as problem:
        return problem
    first = _quote(query, _SPENDS[0])
    if isinstance(first, Planned):
        return first
    second = _quote(query, _SPENDS[1])
    return second if isinstance(second, Planned) else first


def _quote(query: Query, spend: dict[str, Any]) -> Planned | Exception:
    try:
        return Planned(spend, query.quote(**spend))
    except Exception as problem:
        return problem


def _told(outcome: Planned | Exception) -> str:
    if isinstance(outcome, Planned):
        return f"{outcome.quote}{outcome.quote._repr_html_()}{outcome.quote.to_dict()}"
    return said(outcome) if isinstance(outcome, SfumatoError) else f"{type(outcome).__name__}: {outcome}"


def said(problem: SfumatoError) -> str:
    """All that an error says, in every form, with what would go over a wire."""
    document = json.dumps(problem.to_dict(), ensure_ascii=False)
    return f"{type(problem).__name__} {problem.exit_code}\n{problem}\n{problem._repr_html_()}\n{document}"


def _shows(release: Any) -> list[str]:
    table = release.to_arrow()
    told = f"{release}{release._repr_html_()}{release.to_dict()}{table.to_pydict()}"
    nested = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _nested(kind)
    ]
    return ["the answer shows a secret"] * (SECRET in told) + [f"'{name}' holds lists" for name in nested]


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_null(kind))


# ---- the watch ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """Labs, files that must stay unread beside them, and an environment that must stay unseen."""
    outside, inside = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("inside")
    everybody, key = list(range(1, 60)), bytes(range(32))
    labs = (
        build(inside / "one", everybody, key),
        build(inside / "other", [who for who in everybody if who != ODD], key),
    )
    alone = build(inside / "alone", everybody, key)
    _lay_out(outside)
    import duckdb

    connect = duckdb.connect
    watching = Watch(labs, alone, outside)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", lambda *a, **k: Tapped(connect(*a, **k), watching.texts))
        patch.setenv("SFUMATO_CANARY", f"{SECRET}-environment")
        patch.chdir(outside)
        yield watching
    for lab in (*labs, alone):
        lab.ledger.close()


def _lay_out(outside: Path) -> None:
    (outside / "x.csv").write_text(f"patient_id,age\n{SECRET}-file,1\n", encoding="utf-8")
    (outside / "x.json").write_text(json.dumps([{"age": f"{SECRET}-file"}]), encoding="utf-8")
    pq.write_table(pa.table({"age": [f"{SECRET}-file"]}), outside / "x.parquet")
    lab = sf.create(outside / "payroll")
    lab.register("payroll", staff(), unit=sf.ROW, columns={"salary": sf.between(0, 1)}, budget=sf.Budget(1))
    lab.ledger.close()
