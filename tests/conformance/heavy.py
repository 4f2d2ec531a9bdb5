"""Two neighbours, one of which has a unit as heavy as the catalog allows, and questions that reach for it.

The unit has as many rows as are kept of one, texts of the greatest length, and in every column the value that
public tables repeat most, so that joins multiply all its rows. Everyone else has a few short rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf
from conformance import worlds
from conformance.generate import ask, ask_sizes
from sfumato.curator.catalog.public_facts import count_public_facts
from sfumato.curator.hostile.slots import choose_slot
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.errors import PolicyError, SfumatoError
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.plan.work import Work
    from sfumato.curator.question.measurement import Question

HEAVY = 10**6
"""The number of the heaviest unit."""
LETTERS = ("a", "ab", "💥", "a\\", "aaxaxxaaaxaxaaxxx")


@dataclass(frozen=True)
class Neighbour:
    """An engine with one of two neighbouring states of the data, and the catalog that came of it."""

    engine: Any
    tables: dict[str, Table]

    def plan(self, question: Question) -> QuestionPlan:
        return price_question(ResolvedQuestion(self.tables.__getitem__, question), worlds.SPEND)


def make_neighbours(
    seed: int, engines: tuple[Any, Any], source: Callable[[pa.Table], Any]
) -> tuple[Neighbour, Neighbour]:
    """Without the heaviest unit, and with it. `source` makes of a table one that the engine reads."""
    draw = random.Random(seed)
    tables, sources = worlds._people(draw)
    # Few rows a unit would leave nothing that is heavy.
    for name, most in (("visits", (8, 20, 60)[seed % 3]), ("stays", 4)):
        tables[name] = replace(tables[name], protects=sf.Unit("who", most, of="people"))
    made = []
    for engine, heavy in zip(engines, (False, True), strict=True):
        known = dict(tables)
        for name, table in tables.items():
            rows = [row for row in sources[name].to_pylist() if "who" not in row or (row["who"] or 0) > 10]
            rows = [row | {"note": "x"} if "note" in row else row for row in rows]
            if heavy and not table.is_public:
                rows = _with_heaviest(table, rows, draw)
            frame = pa.Table.from_pylist(rows, sources[name].schema)
            engine.prepare(source(frame), table.make_preparation(worlds.KEY), table.snapshot_name)
            if table.is_public:
                known[name] = count_public_facts(engine, table)
        made.append(Neighbour(engine, known))
    return made[0], made[1]


def _with_heaviest(table: Table, rows: list[dict[str, Any]], draw: random.Random) -> list[dict[str, Any]]:
    """One unit more with every row that it may have; where rows are units, one heavy row."""
    letters = draw.choice(LETTERS)
    corner = {name: worlds._numbers(worlds._corner(draw, each)) for name, each in table.columns.items()}
    heavy = corner | {"ward": "A" if table.name != "stays" else "B"}
    heavy |= {"note": (letters * 1200)[:1200]} if "note" in heavy else {}
    if table.unit.column is None:
        return [heavy, *rows[1:]] if table.public_rows else [heavy, *rows]
    return [heavy | {"who": HEAVY} for _ in range(3 * table.unit.max_rows)] + rows


# ---- questions ---------------------------------------------------------------------------------------------

_PATTERNS = (
    "%{0}%{0}%{0}%{1}",
    "%{0}_{1}%",
    "{0}%{1}",
    "%{1}",
    "%_{0}%_{1}%",
    "%" + "{0}%" * 12 + "{1}",
    "{0}%",
    "%{0}" + "_" * 29,
    "%{0}" + "_" * 28 + "{1}%",
    "%" + "{0}" * 200,
    "%" + "_" * 15 + "{0}" * 200,
    "%" + "{0}" * 100 + "{1}%",
    "%" + "{0}" * 50 + "_{1}%",
    "%{0}_{0}%{0}_{1}%",
)
_SHOWN = (
    "COUNT(*) AS n",
    "COUNT(DISTINCT a.who) AS n",
    "COUNT_IF({like}) AS n",
    "SUM(CASE WHEN {like} THEN a.cost ELSE 0 END) AS s",
    "AVG(a.cost * t1.gain) AS m",
    "MEDIAN(a.cost) AS q",
    "VARIANCE(a.cost) AS v, CORR(a.cost, t1.gain) AS c",
    "MAX(LENGTH(a.note)) AS l, COUNT(t1.note) AS k",
)


def ask_heavily(draw: random.Random) -> Question:
    """A join of several tables with tests of texts: near the limits or above them."""
    names = [draw.choice(["visits", "visits", "stays"]) for _ in range(draw.choice([1, 1, 2, 2, 3, 4, 5]))]
    joins = " ".join(f"JOIN {name} t{i} ON a.who = t{i}.who" for i, name in enumerate(names, start=1))
    if draw.random() < 0.3:
        joins += " JOIN offers o ON a.ward = o.ward"
    if names[0] != "visits":
        joins = f"JOIN visits t9 ON a.who = t9.who {joins}"
    first = "t1" if names[0] == "visits" else "t9"
    like = " OR ".join(_like(draw, draw.choice(["a", first])) for _ in range(draw.choice([1, 2, 5])))
    shown = draw.choice(_SHOWN).replace("t1.", f"{first}.").format(like=like)
    where = draw.choice(
        ["", f" WHERE {like}", f" WHERE a.note = {first}.note", " WHERE a.stay = 60 OR a.stay < 60"]
    )
    key = draw.choice(["", "", "", "a.ward", "a.note", "a.ok", f"{first}.ward"])
    key = "" if "MEDIAN" in shown and key == "a.note" else key
    grouped = f" GROUP BY {key}" if key else ""
    sql = f"SELECT {f'{key} AS g, ' if key else ''}{shown} FROM visits a {joins}{where}{grouped}"
    question = parse_question(sql.replace(" GROUP BY " + key, " GROUP BY 1") if key else sql)
    if draw.random() < 0.4:
        return replace(
            question, bounds=ContributionLimits(draw.choice([1, 2, 50]), draw.choice([1, 3, 1000]))
        )
    return question


def _like(draw: random.Random, alias: str) -> str:
    pattern = draw.choice(_PATTERNS).format(draw.choice("aa💥"), draw.choice("bac"))
    text = f"LOWER({alias}.note)" if draw.random() < 0.2 else f"{alias}.note"
    return f"{text} LIKE '{pattern}'"


def draw_question(draw: random.Random) -> Question:
    """Half of the questions are those that engines are compared by, half are heavy."""
    if draw.random() < 0.5:
        return ask_heavily(draw)
    return (ask_sizes(draw) if draw.random() < 0.03 else ask(draw)).question


# ---- outcomes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What someone who asks can tell apart, but for the noisy numbers."""

    said: str
    work: Work | None = None
    slot: float | str | None = None


def find_slot(plan: Plan[Any, Any]) -> float | str:
    """Return when a hostile session would reply, or that it would refuse."""
    try:
        return choose_slot(plan)
    except PolicyError as refusal:
        return str(refusal)


def find_outcome(neighbour: Neighbour, question: Question) -> Outcome:
    """Price, read and add noise, as the gate does."""
    try:
        plan = neighbour.plan(question)
        if (refusal := plan.work.find_refusal()) is not None:
            raise refusal
    except SfumatoError as refusal:
        return Outcome(str(refusal))
    try:
        for step in plan.steps:
            step.release(neighbour.engine.run(step.program))
    except Exception as failure:
        return Outcome(f"charged, then {type(failure).__name__}", plan.work, find_slot(plan))
    return Outcome("answered", plan.work, find_slot(plan))
