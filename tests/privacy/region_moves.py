"""Random conditions on the columns of regions, anywhere in a question, and what units outside then move."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.worlds import World, stored
from sfumato.curator.catalog.regions import Regions
from sfumato.curator.plan.admitted_regions import find_admitted_accounts
from sfumato.curator.question.relation import BaseTable, Condition, Filter, Relation, UnitRowCounts
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from privacy.test_sensitivity import Beside
    from sfumato.curator.plan.plan import QuestionPlan

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


def divide(world: World, columns: tuple[str, ...]) -> Regions:
    """The regions that the table would declare."""
    table = world.tables[DIVIDED]
    values = tuple(table.columns[name].values for name in columns)  # type: ignore[union-attr]
    return Regions(table.snapshot_name, "people", columns, values)


def find_homes(world: World, regions: Regions) -> list[str]:
    """The account of the unit that each neighbour lacks."""
    table, homes = world.tables[DIVIDED], []
    who, _, rows = stored(world.engine.folder, table)
    region = {name: tuple(row[each] for each in regions.columns) for name, row in zip(who, rows, strict=True)}
    nobody = (None,) * len(regions.columns)
    for engine in world.neighbours["people"]:
        gone = set(who) - set(stored(engine.folder, table)[0])
        homes.append(regions.name_account(region[gone.pop()] if gone else nobody))
    return homes


def make_condition(draw: random.Random, regions: Regions) -> Condition:
    """A condition as people write them, of which some leave out a region and some do not."""
    place = draw.randrange(len(regions.columns))
    values = [f"'{value}'" for value in draw.choices(regions.values[place], k=2)]
    where = draw.choice(CONDITIONS).format(regions.columns[place], *values)
    relation: Any = parse_question(f"SELECT COUNT(*) AS n FROM {DIVIDED} WHERE {where}").relation
    return relation.where


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
    homes: list[str],
    regions: Regions,
    admit: Callable[[frozenset[str]], frozenset[str]] = lambda found: found,
) -> int:
    """How many units are outside of the regions that are charged; none of them moves anything."""
    admitted = admit(find_admitted_accounts([step.program for step in plan.steps], regions))
    outside = [i for i, home in enumerate(homes) if home not in admitted]
    for step in plan.steps if outside else ():
        whole, *others = worlds.answers(step, "people")
        for i in outside:
            assert _same(whole, others[i]), (homes[i], sorted(admitted), step.program)
    return len(outside)


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other
