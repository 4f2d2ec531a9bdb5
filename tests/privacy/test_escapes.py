"""Attempts to read what nobody may read: each is refused in a coded way, or is a question like any other.

`escapes/` holds one attempt a line under headings that name the family; {U+200B} stands for a character and
{9×x} for a repetition. What is refused today may be answered tomorrow, so nothing here says what is refused:
an attempt is through if it raises anything uncoded, if any text of it reaches the engine, if a secret shows,
or if one person more or less changes anything but the inputs of the noise, by no more than was priced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog.domains import Listed
from sfumato.curator.plan.sensitivity import ContributionBounds, SumSensitivity
from sfumato.engines.compile import compile_program
from sfumato.engines.duckdb import run
from sfumato.errors import PolicyError
from sfumato.lab.session import Query, Session

FOLDER = Path(__file__).with_name("escapes")
REPEATED = re.compile(r"\{(\d+)×(.*?)\}")
POINT = re.compile(r"\{U\+([0-9A-F]{4,6})\}")

secret_frame = pa.table({"age": ["SESAME-variable"]})
"""A variable that an engine which looks around in the process would find."""


def families(file: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (FOLDER / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            attempts = found.setdefault(line.removeprefix("# "), [])
        elif line:
            attempts.append(line)
    return found


def written(line: str, folder: Path) -> str:
    repeated = REPEATED.sub(lambda found: found[2] * int(found[1]), line.replace("{folder}", str(folder)))
    return POINT.sub(lambda found: chr(int(found[1], 16)), repeated)


FAMILIES = {
    (file, family): attempts
    for file in sorted(each.name for each in FOLDER.glob("*.sql"))
    for family, attempts in families(file).items()
}
CONDITIONS = [line for lines in families("conditions.txt").values() for line in lines]
PLACES: dict[str, Callable[[Session, str], Query]] = {
    "where": lambda s, text: s.sql(f"SELECT COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE {text}"),
    "case": lambda s, text: s.sql(f"SELECT SUM(CASE WHEN {text} THEN cost ELSE 0 END) AS s FROM visits"),
    "filter": lambda s, text: s.sql(f"SELECT ward, COUNT(*) FILTER (WHERE {text}) FROM visits GROUP BY ward"),
    "key": lambda s, text: s.sql(f"SELECT ({text}) AS k, COUNT(*) AS n FROM visits GROUP BY k"),
    "having": lambda s, text: s.sql(f"SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING {text}"),
    "subquery": lambda s, text: s.sql(f"SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE {text}) AS t"),
    "frame": lambda s, text: s.table("visits").where(text).count(),
}


@pytest.mark.parametrize(("file", "family"), FAMILIES)
def test_no_attempt_is_through(watch: Any, file: str, family: str) -> None:
    found = {}
    for line in FAMILIES[file, family]:
        sql = written(line, watch.outside)
        found[line] = watch.through(lambda session, sql=sql: session.sql(sql))
    assert {line: why for line, why in found.items() if why} == {}


def test_no_condition_is_through(watch: Any) -> None:
    """Each in one of the places, in turn."""
    places = list(PLACES)
    for number, place in enumerate(places):
        _try_conditions(watch, place, CONDITIONS[number :: len(places)])


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_condition_is_through_anywhere(watch: Any, place: str) -> None:
    _try_conditions(watch, place, CONDITIONS)


def _try_conditions(watch: Any, place: str, conditions: list[str]) -> None:
    found = {}
    for line in conditions:
        text, ask = written(line, watch.outside), PLACES[place]
        found[line] = watch.through(lambda session, text=text, ask=ask: ask(session, text))
    assert {line: why for line, why in found.items() if why} == {}


NAMES = [
    "name",
    "patient_id",
    "c0",
    "unit",
    "",
    "*",
    "age; DROP TABLE rows",
    'age"',
    "age'",
    "a\x00ge",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_given_to_a_frame_is_through(watch: Any, name: str) -> None:
    ways: list[Callable[[Session], Query]] = [
        lambda s: s.table(name).count(),
        lambda s: s.table("visits").group_by(name).count(),
        lambda s: s.table("visits").group_by("ward").agg(n=sf.mean(name)),
        lambda s: s.table("visits").agg(n=sf.sum(name)),
        lambda s: s.table("visits").agg(n=sf.count(name)),
        lambda s: s.table("visits").agg(**{name: sf.count()}),
    ]
    assert [watch.through(ask) for ask in ways] == [None] * len(ways)


def test_there_are_enough_and_no_two_are_the_same() -> None:
    lines = [line for attempts in FAMILIES.values() for line in attempts]
    assert len(lines) == len(set(lines)) >= 300
    assert len(CONDITIONS) == len(set(CONDITIONS)) >= 200
    assert not any("SESAME" in line for line in [*lines, *CONDITIONS])


# ---- the watch itself sees what it is there for ------------------------------------------------------------

PLAIN = "SELECT ward, COUNT(*) AS n FROM visits WHERE ward = 'A' AND age > {} GROUP BY ward"


def _reason(watch: Any, number: int) -> str:
    return str(watch.through(lambda session: session.sql(PLAIN.format(number))))


def test_a_plain_question_passes_and_reaches_the_engine(watch: Any) -> None:
    assert _reason(watch, 1) == "None"
    assert any("snapshot0.rows" in sql for sql in watch.texts)


def test_text_of_the_analyst_in_the_engine_is_seen(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = compile_program
    for number, addition in enumerate((" OR 'A' = 'Z'", " -- A", " OR A", " OR read_csv(1)", " OR 2 > 1.5")):
        monkeypatch.setattr(
            run,
            "compile_program",
            lambda program, *rest, addition=addition: original(program, *rest).replace(
                " GROUP BY", f"{addition}\n GROUP BY"
            ),
        )
        assert re.match("reached the engine|raised SF-X901", _reason(watch, 20 + number))


def test_a_question_that_costs_too_little_is_seen(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContributionBounds, "sensitivity", lambda self, summand: SumSensitivity(1, 1))
    assert "moved by" in str(
        watch.through(lambda s: s.sql("SELECT SUM(cost) AS s FROM visits WHERE cost > 4998"))
    )


def test_secrets_and_uncoded_errors_are_seen(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(self: Listed) -> list[str]:
        return ["SESAME", "B", "C"]

    monkeypatch.setattr(Listed, "show_values", shown)
    assert _reason(watch, 40) == "the answer shows a secret"
    monkeypatch.undo()

    def refuse(*_: object) -> None:
        raise PolicyError("SF-Q105", "The value is SESAME-17.")

    monkeypatch.setattr("sfumato.lab.query.price_question", refuse)
    assert "shows a secret" in _reason(watch, 41)
    monkeypatch.setattr("sfumato.lab.query.price_question", lambda *_: 1 / 0)
    assert "raised ZeroDivisionError" in _reason(watch, 42)
