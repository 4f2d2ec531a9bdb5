"""What a question becomes, before anything is charged: recorded, and read once by a person.

The files in `plans` hold blocks of a question and its plan. After a change,
`pytest tests/unit/queries --record` writes the plans anew; read the difference before keeping it.
"""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Table, declare_table
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import PUBLIC
from sfumato.queries.sql import parse_question
from unit.queries import written

FOLDER = Path(__file__).with_name("plans")
FILES = sorted(FOLDER.glob("*.txt"))
"""Their requests are pinned in unit/identity, so no question is added to them."""
LATER = sorted(FOLDER.glob("later/*.txt"))
END = "\n----\n"
SPEND = PureSpend(Fraction(1), Fraction(1, 10**6))

VISITS = {
    "age": sf.between(0, 110),
    "cost": sf.between(0, 5000),
    "gain": sf.between(-7.5, 2.25, step=0.125),
    "stay": sf.between(-1, 60, step=1),
    "tip": sf.between(0, 50, step=0.25, missing=0),
    "ward": sf.one_of("A", "B", "C"),
    "flag": sf.one_of(0, 1, missing=0),
    "score": sf.one_of(-2, 0.5, 3),
    "ok": sf.one_of(True, False),
    "day": sf.between(date(2019, 12, 28), date(2021, 3, 2)),
    "seen": sf.between(datetime(2020, 1, 1), datetime(2020, 1, 2)),
    "note": sf.text(),
    "sex": sf.one_of("f", "m", constant=True),
    "born": sf.between(1900, 2020, step=1, constant=True),
}
STAYS = {"nights": sf.between(0, 30, step=1), "ward": sf.one_of("B", "C", "D"), "note": sf.text()}
WARDS = {"ward": sf.one_of("A", "B", "C"), "region": sf.one_of("N", "S"), "beds": sf.between(0, 500, step=1)}
SURVEY = {"income": sf.between(0, 100_000), "vote": sf.one_of("yes", "no"), "note": sf.text()}
TABLES = {
    "visits": declare_table("visits", sf.Unit("patient_id", max_rows=20, of="people"), VISITS),
    "stays": declare_table("stays", sf.Unit("patient_id", max_rows=4, of="people"), STAYS),
    "people": declare_table(
        "people", sf.Unit("patient_id", max_rows=1, of="people"), {"sex": sf.one_of("f", "m")}
    ),
    "wards": Table("wards", PUBLIC, WARDS, public_rows=3, multiplicity={"ward": 1, "region": 2, "beds": 1}),
    "offers": Table("offers", PUBLIC, WARDS, public_rows=9, multiplicity={"ward": 3, "region": 6, "beds": 2}),
    "survey": declare_table("survey", sf.ROW, SURVEY),
    "census": Table("census", sf.ROW, SURVEY, neighbours=Neighbours.REPLACE_ONE, public_rows=900),
}


def _blocks(file: Path) -> list[tuple[str, str]]:
    blocks = [
        part.partition("\n=>\n") for part in file.read_text(encoding="utf-8").split(END) if part.strip()
    ]
    return [(asked.strip("\n"), plan.strip("\n")) for asked, _, plan in blocks]


def _planned(sql: str) -> str:
    return written.plan(price_question(ResolvedQuestion(TABLES.__getitem__, parse_question(sql)), SPEND))


@pytest.mark.parametrize("file", [*FILES, *LATER], ids=lambda file: file.stem)
def test_each_question_becomes_its_plan(file: Path, pytestconfig: pytest.Config) -> None:
    got = [(sql, _planned(sql)) for sql, _ in _blocks(file)]
    if pytestconfig.getoption("--record"):
        file.write_text(END.join(f"{sql}\n=>\n{plan}" for sql, plan in got) + "\n", encoding="utf-8")
    assert got == _blocks(file)


def test_there_are_enough() -> None:
    asked = [sql for file in FILES for sql, _ in _blocks(file)]
    assert len(asked) >= 150
    assert len(set(asked)) == len(asked)
