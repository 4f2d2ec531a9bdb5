"""Random conditions on the columns of regions, anywhere in a question, and what units outside then move."""

from __future__ import annotations

import random
import shutil
from dataclasses import fields, is_dataclass, replace
from hashlib import md5
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from conformance.worlds import World, sizes, stored
from sfumato.curator.catalog.regions import Regions
from sfumato.curator.plan.admitted_regions import find_admitted_accounts
from sfumato.curator.question.relation import BaseTable, Condition, Filter, Relation, UnitRowCounts
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from privacy.test_sensitivity import Beside
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.question.measurement import Question

DIVIDED = "visits"
CONDITIONS = (
    "{0} = {1}",
    "{0} <> {1}",
    "{0} IN ({1}, {2})",
    "NOT ({0} IN ({1}, {2}))",
    "{0} IS NULL",
    "{0} IS NOT NULL AND tip >= 0",
    "{0} = {1} OR cost > 100",
    "({0} = {1} OR {0} IS NULL) AND gain > -5",
    "CASE WHEN {0} = {1} THEN 1 WHEN cost > 5 THEN 2 ELSE 0 END >= 1",
    "COALESCE({0}, {1}) = {1}",
    "NOT ({0} = {1} AND flag = 1)",
    "{0} LIKE {1} AND {0} <> {2}",
    "EXISTS (SELECT 1 FROM visits AS w WHERE w.who = visits.who AND w.{0} = {1})",
    "NOT EXISTS (SELECT 1 FROM visits AS w WHERE w.who = visits.who AND w.{0} = {1})",
)

BESIDE = (
    "stays JOIN visits USING (who) WHERE {0}",
    "stays LEFT JOIN visits USING (who) WHERE {0}",
    "stays LEFT JOIN visits USING (who) WHERE {0} AND nights > 3",
    "stays WHERE who IN (SELECT who FROM visits WHERE {0})",
    "stays WHERE who NOT IN (SELECT who FROM visits WHERE {0})",
    "stays WHERE nights > 3 OR who IN (SELECT who FROM visits WHERE {0})",
    "stays WHERE EXISTS (SELECT 1 FROM visits WHERE visits.who = stays.who AND {0})",
    "stays WHERE NOT EXISTS (SELECT 1 FROM visits WHERE visits.who = stays.who AND {0})",
    "visits LEFT JOIN stays USING (who) WHERE {0}",
)
"""Tables that units may be in which have no row in the one with the regions."""


def divide(world: World, columns: tuple[str, ...], pinned: bool = False) -> Regions:
    """The regions that the table would declare."""
    table = world.tables[DIVIDED]
    values = tuple(table.columns[name].values for name in columns)  # type: ignore[union-attr]
    return Regions(table.snapshot_name, "people", columns, values, pinned)


def find_homes(world: World, regions: Regions, hidden: bool = False) -> list[str | None]:
    """The account of the unit that each neighbour lacks; None where it may be any of them.

    With `hidden` these are the neighbours of `hide_units`.
    """
    who, _, rows = stored(world.engine.folder, world.tables[DIVIDED])
    region = {name: tuple(row[each] for each in regions.columns) for name, row in zip(who, rows, strict=True)}
    removed = [gone if gone in region else None for gone in _list_removed(world)]
    if hidden:
        removed[::2] = [None] * len(removed[::2])
    nowhere = None if regions.pinned else regions.name_account((None,) * len(regions.columns))
    return [nowhere if gone is None else regions.name_account(region[gone]) for gone in removed]


def hide_units(worlds: Beside, folder: Path) -> Beside:
    """The same, but every second unit that a neighbour lacks has no row in the table with the regions."""
    shutil.copytree(worlds.engines["people"].folder, folder)
    parts, removed = range(len(worlds.world.neighbours["people"]) + 1), _list_removed(worlds.world)
    hidden = [md5(f"{part}{who}".encode()).hexdigest() for part in parts for who in removed[::2]]
    with duckdb.connect(str(folder / f"{worlds.world.tables[DIVIDED].snapshot_name}.duckdb")) as connection:
        chosen = "SELECT unit FROM units WHERE list_contains(CAST(? AS UUID[]), person)"
        connection.execute(f"CREATE TEMP TABLE hidden AS {chosen}", [hidden])
        for table in ("rows", "units"):
            connection.execute(f"DELETE FROM {table} WHERE unit IN (FROM hidden)")
    return replace(worlds, engines={"people": DuckDBEngine(folder, threads=1)})


def _list_removed(world: World) -> list[str]:
    """The person that each neighbour lacks in the table with the regions; empty if it has none there."""
    everyone, *others = (
        {name for name, _ in sizes(engine.folder, world.tables[DIVIDED])}
        for engine in (world.engine, *world.neighbours["people"])
    )
    return ["".join(everyone - other) for other in others]


def make_condition(draw: random.Random, regions: Regions) -> Condition:
    """A condition as people write them, of which some leave out a region and some do not."""
    where = _write_condition(draw, regions)
    relation: Any = parse_question(f"SELECT COUNT(*) AS n FROM {DIVIDED} WHERE {where}").relation
    return relation.where


def _write_condition(draw: random.Random, regions: Regions) -> str:
    place = draw.randrange(len(regions.columns))
    values = [f"'{value}'" for value in draw.choices(regions.values[place], k=2)]
    return draw.choice(CONDITIONS).format(regions.columns[place], *values)


def ask_beside(draw: random.Random, regions: Regions) -> Question:
    """A count of units or rows of other tables, with a condition on the regions somewhere."""
    rows = draw.choice(BESIDE).format(f"({_write_condition(draw, regions)})")
    return parse_question(f"SELECT {draw.choice(['COUNT(*)', 'COUNT(DISTINCT who)'])} AS n FROM {rows}")


def scatter_conditions(draw: random.Random, relation: Relation, regions: Regions) -> Relation:
    """The relation with conditions on the regions put around some of its parts."""
    return _scatter(draw, relation, regions)


def _scatter(draw: random.Random, node: Any, regions: Regions) -> Any:
    if isinstance(node, BaseTable):
        chosen = node.name == DIVIDED and draw.random() < 0.6
        return Filter(node, make_condition(draw, regions)) if chosen else node
    if isinstance(node, tuple):
        return tuple(_scatter(draw, each, regions) for each in node)
    if isinstance(node, UnitRowCounts) or not is_dataclass(node):
        return node
    inner = {each.name: _scatter(draw, getattr(node, each.name), regions) for each in fields(node)}
    return replace(node, **inner)  # type: ignore[type-var]


def count_left_out(
    worlds: Beside,
    plan: QuestionPlan,
    homes: list[str | None],
    regions: Regions,
    admit: Callable[[frozenset[str]], frozenset[str]] = lambda found: found,
) -> int:
    """How many units are outside of the regions that are charged; none of them moves anything."""
    admitted = admit(find_admitted_accounts([step.program for step in plan.steps], regions))
    everywhere = admitted == set(regions.list_accounts())
    outside = [
        i for i, home in enumerate(homes) if (home not in admitted if home is not None else not everywhere)
    ]
    for step in plan.steps if outside else ():
        whole, *others = worlds.answers(step, "people")
        for i in outside:
            assert _same(whole, others[i]), (homes[i], sorted(admitted), step.program)
    return len(outside)


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other
