"""A question whose names are looked up and whose contributions are bounded; its price is yet to be named.

Only public facts come in: the catalog and the question. Nothing here can read a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.catalog.domains import (
    MOST_CELLS,
    Domain,
    FreeTexts,
    Listed,
    Numbers,
    Periods,
    Shown,
    is_countable,
)
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    add_integer,
    limit_places,
    require_number,
)
from sfumato.curator.lower.presence import is_present
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.plan.key_values import MISSING as NO_VALUE
from sfumato.curator.plan.key_values import find_key_values
from sfumato.curator.plan.possible_rows import has_no_rows
from sfumato.curator.plan.row_columns import GroupedColumns, find_columns
from sfumato.curator.plan.sensitivity import ContributionBounds, SumSensitivity
from sfumato.curator.plan.shaped.gaussian_shapes import RowMoves, list_moves_of_rows
from sfumato.curator.plan.shaped.shapes import ShapedSums, find_shape
from sfumato.curator.plan.spend import Needs
from sfumato.curator.plan.summands import Summand, list_summands, noise_weights, order_summands
from sfumato.curator.plan.work import MOST_NUMBERS
from sfumato.curator.question.measurement import (
    ChosenAggregate,
    GroupKey,
    ModeOf,
    QuantileOf,
    Question,
    SummedAggregate,
)
from sfumato.curator.question.relation import Case
from sfumato.engines import program as engine
from sfumato.engines.rows import Bounded, Scan
from sfumato.engines.values import Constant, Every, Lookup
from sfumato.errors import PolicyError
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.key_values import KeyValues
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Predicate

    Mask = NDArray[np.bool_]
    Tables = Callable[[str], Table]

MOST_LOOKED_UP = 2**12
"""Values of a key that are looked up one by one; of more, all between the least and the greatest have a
group, and those that no row can have are not shown."""
MOST_PLACES = 2**22
"""Quantiles are chosen among at most so many places. It bounds memory; privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A key of GROUP BY, and what its integers or texts stand for."""

    part: LoweredValue
    nulls: bool = False
    """Whether rows where it is missing have a group of their own, after the others."""
    leaves_out: bool = False
    """Whether such rows may exist and are in no group: in answers from before there were groups for them."""
    places: range | tuple[int, ...] | None = None
    """Which values of the domain rows can have, counted from its least; None for all of them."""
    leader: int | None = None
    """The place of the key that this one follows from, so that it needs no groups of its own."""
    follows: tuple[int, ...] = ()
    """For each group of the leader, the place of the value that this key then has."""

    @property
    def domain(self) -> Domain:
        """What the key can be."""
        return self.part.domain

    @property
    def listed(self) -> bool:
        """Whether every group is known beforehand."""
        return is_countable(self.domain) or self.places is not None

    @property
    def size(self) -> int:
        """The number of groups that are known beforehand: one for each value, and one for missing ones."""
        if isinstance(self.domain, FreeTexts):
            return 0
        if self.leader is not None:
            return 1
        return (self.domain.size if self.places is None else len(self.places)) + self.nulls

    @property
    def has_null_group(self) -> bool:
        """Whether the last of its groups is for rows where it is missing."""
        return self.nulls and self.leader is None

    def narrow(self, values: NDArray[np.int64], missing: bool) -> Grouping:
        """Return the key with groups for these integers only, those of its domain.

        `missing` says whether there may be rows where the key is missing.
        """
        if isinstance(self.domain, FreeTexts):
            return self
        found = np.unique(values) - self.domain.low
        places = tuple(found[(found >= 0) & (found < self.domain.size)].tolist())
        # Where no value is left at all, the question is about no rows, and nothing is known of its groups.
        if len(places) == self.domain.size or not (places or missing):
            return self
        hull = range(places[0], places[-1] + 1) if places else range(0)
        # A list of places stands in the program, so a long one is replaced by its ends.
        whole = len(hull) == len(places) or self.domain.size > MOST_LOOKED_UP
        return replace(self, places=hull if whole else places)

    def engine_key(self) -> engine.CellKey:
        """Return the key as engines group by it: places from 0 on."""
        if isinstance(self.domain, FreeTexts):
            raise AssertionError(self)
        low = self.domain.low
        if self.leader is not None:
            return engine.CellKey(Constant(0), 1)
        if isinstance(self.places, tuple):
            at = {place: number for number, place in enumerate(self.places)}
            entries = tuple(at.get(place) for place in range(self.domain.size))
            return engine.CellKey(Lookup(add_integer(self.part.value, -low), entries), self.size, self.nulls)
        first = low if self.places is None else low + self.places.start
        return engine.CellKey(add_integer(self.part.value, -first), self.size, self.nulls)

    def find_cells(self, values: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the place of each integer among the groups, −1 where it is in none."""
        if isinstance(self.domain, FreeTexts):
            raise AssertionError(self)
        places = np.arange(self.domain.size) if self.places is None else np.array(self.places)
        wanted = np.where(values == NO_VALUE, 0, values) - self.domain.low
        found = np.searchsorted(places, wanted)
        inside = np.append(places, -1)[found] == wanted
        missing = self.size - 1 if self.nulls else -1
        return np.where(values == NO_VALUE, missing, np.where(inside, found, -1))

    def show_values(self) -> list[Shown | None]:
        """Return what each place stands for, as people see it."""
        if isinstance(self.domain, FreeTexts):
            raise AssertionError(self)
        shown: list[Shown | None]
        if self.places is not None and isinstance(self.domain, Numbers):
            # Of a wide range a condition may have left a few numbers.
            shown = [self.domain.show_value(self.domain.low + place) for place in self.places]
        else:
            shown = list(self.domain.show_values())
            shown = shown if self.places is None else [shown[place] for place in self.places]
        return [*shown, *([None] if self.nulls else [])]


class ResolvedQuestion:
    """A question whose names are known and whose contributions are bounded."""

    def __init__(self, tables: Tables, question: Question) -> None:
        self.question = question
        self.source = lower_relation(question.relation, tables)
        if self.table.is_public:
            raise PolicyError(
                "SF-Q144",
                f"'{self.table.name}' is public: there is no one to protect in it.",
                try_="read it as it is, or join it with a table about people",
            )
        self.keys = tuple(Grouping(lower_expression(key, self.source.scope)) for key in question.keys)
        self._check_keys()
        self._key_values: tuple[KeyValues, ...] = ()
        if not any(isinstance(key.domain, FreeTexts) for key in self.keys):
            self._key_values = tuple(find_key_values([key.part.value for key in self.keys], self.source))
            self.keys = self._narrow_keys()
        self.keys = self._with_nulls()
        self._check_cells()

    @property
    def table(self) -> Table:
        """The table whose units are protected."""
        return self.source.table

    @property
    def discovers_keys(self) -> bool:
        """Whether some key is not listed, so that which groups exist is discovered, with a δ."""
        return not all(key.listed for key in self.keys)

    @property
    def cells(self) -> int:
        """The number of groups, where all keys are listed."""
        if self.question.levels:
            return sum(level.cells for level in self.levels)
        return math.prod(key.size for key in self.keys)

    @cached_property
    def is_empty(self) -> bool:
        """Whether declarations and conditions leave no row, so that the answer is known unread."""
        return has_no_rows(self.source)

    @cached_property
    def levels(self) -> tuple[ResolvedQuestion, ...]:
        """The question at each level of ROLLUP, CUBE or GROUPING SETS; itself where there are none."""
        keys = (tuple(self.keys[at] for at in level) for level in self.question.levels)
        return tuple(map(self.by_keys, keys)) or (self,)

    def by_keys(self, keys: tuple[Grouping, ...]) -> ResolvedQuestion:
        """Return the numbers of this question in groups of these keys."""
        numbers = tuple(each for each in self.question.outputs if not isinstance(each.shows, GroupKey))
        alone = replace(self.question, outputs=numbers, having=None, order=(), levels=())
        return self._copy(alone, keys)

    def _copy(self, question: Question, keys: tuple[Grouping, ...]) -> ResolvedQuestion:
        found = ResolvedQuestion.__new__(ResolvedQuestion)
        found.question, found.source, found.keys, found._key_values = question, self.source, keys, ()
        return found

    @cached_property
    def without_nulls(self) -> ResolvedQuestion:
        """This question where rows without a key are in no group; itself where no key can be missing.

        Questions are recognised by this form: it is what was hashed before there were groups for missing
        keys, so that what was paid for then is still found.
        """
        # Levels came later than these groups, so that none was ever hashed without them.
        if not any(key.has_null_group for key in self.keys) or self.question.levels:
            return self
        keys = (
            replace(key, nulls=False, leaves_out=True) if key.has_null_group else key for key in self.keys
        )
        bare = self._copy(self.question, tuple(keys))
        bare._key_values = self._key_values
        # What rows add is the same, whatever groups they are in, and takes time to find.
        bare.summands_of, bare.summands = self.summands_of, self.summands
        bare._columns, bare.shaped, bare.row_moves = self._columns, self.shaped, self.row_moves
        return bare

    @cached_property
    def rows(self) -> tuple[Rows, Predicate]:
        """Where rows come from and which of them are used, with a unit's contribution bounded as asked."""
        bounds = self.question.bounds
        # A unit of one row is in one group anyway: bounding it would only make another request.
        if bounds is None or self.source.max_rows == 1:
            return self.source.rows, self.source.where
        cell = tuple(key.part.value for key in self.keys)
        return Bounded(self.source.rows, self.source.where, cell, bounds.groups, bounds.rows), Every()

    @cached_property
    def contribution(self) -> ContributionBounds:
        """How many rows one unit can have, and in how many groups."""
        bounds, most = self.question.bounds, self.unbounded_contribution
        if bounds is None:
            return most
        cells, each = min(most.cells, bounds.groups), min(most.each, bounds.rows)
        return replace(most, rows=min(most.rows, cells * each), cells=cells, each=each)

    @cached_property
    def unbounded_contribution(self) -> ContributionBounds:
        """How many rows one unit can have, and in how many groups, before they are bounded as asked."""
        rows = self.source.max_rows
        # Keys that are the same in all rows of a unit put it into one group, however many rows it has.
        constant = all(key.part.constant for key in self.keys)
        cells = 1 if constant else rows if self.discovers_keys else max(1, min(rows, self.cells))
        each = 1 if self._apart else rows
        replaced = self.table.neighbours is Neighbours.REPLACE_ONE
        return ContributionBounds(min(rows, cells * each), cells, each, replaced, not self.keys)

    @property
    def _apart(self) -> bool:
        """Whether no two rows of a unit can be in one cell."""
        apart = self.source.apart
        return apart is not None and apart <= {key.part.value for key in self.keys}

    @cached_property
    def summands_of(self) -> dict[SummedAggregate, tuple[Summand, ...]]:
        """The sums that each aggregate is computed from. Expressions are lowered here, once."""
        asked = (each for each in self.question.aggregates if not isinstance(each, ChosenAggregate))
        return {each: list_summands(each, self.source) for each in asked}

    @cached_property
    def summands(self) -> tuple[Summand, ...]:
        """Every sum once, in the order of their canonical form, so that equal questions are equal.

        The same integers may stand for different numbers, as those of x and x / 3 do: those are two sums.
        """
        # A sum that several aggregates use is measured once, and gets the noise of one.
        return order_summands({summand for parts in self.summands_of.values() for summand in parts})

    @cached_property
    def _columns(self) -> GroupedColumns | None:
        """The columns of sums that one row moves together; None where no shape has them.

        Where a unit is replaced, what it adds and what it takes away can point anywhere. Levels have noise
        of their own each, and are made to agree sum by sum, unless they are measured together.
        """
        if self.table.neighbours is Neighbours.REPLACE_ONE or self.question.levels:
            return None
        return find_columns(self.summands_of, self.source)

    @cached_property
    def shaped(self) -> ShapedSums | None:
        """A shape for the sums that one row moves together; None where there is none, or none that helps."""
        return None if self._columns is None else find_shape(self._columns)

    @cached_property
    def row_moves(self) -> RowMoves | None:
        """What one row can add to sums, which Gaussian noise has the shape of; None where that is no help."""
        return None if self._columns is None else list_moves_of_rows(self._columns)

    @cached_property
    def gaussian_shaped(self) -> ShapedSums | None:
        """A shape for Gaussian noise in the sums that one row moves together; None where that is no help."""
        if self.row_moves is None:
            return None
        return self.row_moves.shape(self.row_moves.find_weights(self.sum_weights))

    @cached_property
    def choices(self) -> tuple[tuple[LoweredValue, tuple[ChosenAggregate, ...]], ...]:
        """What is chosen together of one value: its quantiles, shares ascending; ends and modes alone."""
        return (*self._quantiles(), *self._modes())

    def _modes(self) -> Iterator[tuple[LoweredValue, tuple[ModeOf, ...]]]:
        found: dict[LoweredValue, list[ModeOf]] = {}
        for each in self.question.aggregates:
            if isinstance(each, ModeOf):
                part = _listed(
                    lower_expression(each.of, self.source.scope), 1 if self.discovers_keys else self.cells
                )
                found.setdefault(part, []).append(each)
        for part in sorted(found, key=lambda each: canonical_json(each.value)):
            yield part, tuple(found[part])

    def _quantiles(self) -> tuple[tuple[LoweredValue, tuple[QuantileOf, ...]], ...]:
        found: dict[tuple[LoweredValue, Fraction | None], list[QuantileOf]] = {}
        for aggregate in self.question.aggregates:
            if isinstance(aggregate, QuantileOf):
                part = _rankable(lower_expression(aggregate.of, self.source.scope))
                alone = aggregate.share if aggregate.is_end else None
                found.setdefault((part, alone), []).append(aggregate)
        # Sorted by canonical form, so that the order of SELECT makes no other request.
        in_order = sorted(found, key=lambda each: canonical_json([each[0].value, each[1]]))
        return tuple((key[0], tuple(sorted(found[key], key=lambda each: each.share))) for key in in_order)

    @cached_property
    def needs(self) -> Needs:
        """What the spend is split over: sums, choices and keys."""
        # A group for missing keys changes no part of the spend, and not which kind of noise is chosen.
        if self.without_nulls is not self:
            return self.without_nulls.needs
        sensitivities = tuple(
            level.without_nulls.sensitivity(summand) for level in self.levels for summand in self.summands
        )
        weights = tuple(self.sum_weights.values()) * len(self.levels)
        choices = len(self.choices) * len(self.levels)
        shaped = None if self.shaped is None else self.needs_of(self.shaped)
        return Needs(sensitivities, choices, self.discovers_keys, weights, shaped)

    def needs_of(self, shaped: ShapedSums) -> Needs:
        """Return what the spend is split over where one noise has this shape."""
        weights, apart, sums = self.sum_weights, self.list_apart(shaped), []
        for bare in (level.without_nulls for level in self.levels):
            sums.append(bare.contribution.shape_sensitivity(shaped.shape.width))
            sums += [bare.sensitivity(each) for each in apart]
        harms = (shaped.weigh(weights), *(weights[each] for each in apart)) * len(self.levels)
        return Needs(tuple(sums), len(self.choices) * len(self.levels), self.discovers_keys, harms)

    def list_apart(self, shaped: ShapedSums) -> tuple[Summand, ...]:
        """Return the sums that a shape does not have."""
        return tuple(each for each in self.summands if each not in shaped.measured)

    @cached_property
    def possible_cells(self) -> Mask:
        """Which groups public facts do not rule out; where there are levels, one after the other."""
        return np.concatenate([self._find_possible(level) for level in self._places_of_levels])

    @cached_property
    def missing_cells(self) -> Mask:
        """Which groups are of rows where some key is missing; where there are levels, one after the other."""
        return np.concatenate([self._find_missing(level) for level in self._places_of_levels])

    @cached_property
    def total_cells(self) -> Mask:
        """Which groups are the total of all rows, as the last level of ROLLUP is."""
        sizes = (math.prod(self.keys[at].size for at in level) for level in self._places_of_levels)
        pairs = zip(sizes, self._places_of_levels, strict=True)
        return np.concatenate([np.full(size, not level) for size, level in pairs])

    @property
    def lists_values(self) -> bool:
        """Whether every key is one of a list: declared values, or those that a CASE names."""
        pairs = zip(self.keys, self.question.keys, strict=True)
        return all(isinstance(key.domain, Listed) or isinstance(typed, Case) for key, typed in pairs)

    @property
    def _places_of_levels(self) -> tuple[tuple[int, ...], ...]:
        return self.question.levels or (tuple(range(len(self.keys))),)

    def _find_possible(self, level: tuple[int, ...]) -> Mask:
        found = np.ones([self.keys[at].size for at in level], dtype=np.bool_)
        for each in self._key_values:
            own = [at for at in level if at in each.keys]
            cells = [self._find_groups(each, at) for at in own]
            known = np.logical_and.reduce([part >= 0 for part in cells]) if own else None
            # Where no combination is left, the question is about no rows, and every group is empty.
            if known is None or not known.any():
                continue
            allowed = np.zeros([self.keys[at].size for at in own], dtype=np.bool_)
            allowed[tuple(part[known] for part in cells)] = True
            found &= allowed.reshape([self.keys[at].size if at in own else 1 for at in level])
        return found.reshape(-1)

    def _find_missing(self, level: tuple[int, ...]) -> Mask:
        found = np.zeros([self.keys[at].size for at in level], dtype=np.bool_)
        for axis, key in enumerate(self.keys[at] for at in level):
            if key.has_null_group:
                np.moveaxis(found, axis, 0)[-1] = True
            elif key.nulls and key.leader is not None:
                # Levels have no such keys, so that places and axes are the same.
                missing = np.array(key.follows)[: found.shape[key.leader]] == len(key.show_values()) - 1
                np.moveaxis(found, key.leader, 0)[missing] = True
        return found.reshape(-1)

    def _find_groups(self, known: KeyValues, at: int) -> NDArray[np.intp]:
        """Return the group of a key in each combination, −1 where it is in none."""
        key = self.keys[at]
        found = replace(key, leader=None).find_cells(known.rows[:, known.keys.index(at)])
        return found if key.leader is None else np.minimum(found, 0)

    def _with_followers(self, keys: tuple[Grouping, ...]) -> tuple[Grouping, ...]:
        """Return the keys, of which those that follow from another have no groups of their own.

        As the name of a contestant follows from the number, if a public table says so.
        """
        found = list(keys)
        for each in () if self.question.levels else self._key_values:
            cells = np.stack([keys[at].find_cells(each.rows[:, i]) for i, at in enumerate(each.keys)])
            cells = cells[:, (cells >= 0).all(axis=0)]
            follow = [_list_following(cells, i) for i in range(len(cells))] if cells.size else []
            gains = [math.prod(keys[each.keys[i]].size for i in own) for own in follow]
            if not gains or max(gains) == 1:
                continue
            first = gains.index(max(gains))
            leader = each.keys[first]
            for i in follow[first]:
                own = np.zeros(keys[leader].size, dtype=np.int64)
                own[cells[first]] = cells[i]
                at = each.keys[i]
                found[at] = replace(keys[at], leader=leader, follows=tuple(own.tolist()))
        return tuple(found)

    def require_answerable(self) -> None:
        """Refuse what no spend could answer, before one is named."""
        _ = self.needs

    @cached_property
    def sum_weights(self) -> dict[Summand, Fraction]:
        """What each sum weighs in all numbers of the answer together."""
        found = dict.fromkeys(self.summands, Fraction(0))
        for aggregate, parts in self.summands_of.items():
            for summand, weight in zip(parts, noise_weights(aggregate, len(parts)), strict=True):
                found[summand] += weight
        return found

    def sensitivity(self, summand: Summand) -> SumSensitivity:
        """Return how far one unit can move a sum. Nothing moves the number of all rows where it is public."""
        # With REPLACE_ONE the number of all rows was declared: it costs nothing and gets no noise.
        everyone = self.rows == (self.source.rows, Every()) and isinstance(self.source.rows, Scan)
        whole = everyone and not self.keys and isinstance(summand.term, engine.Counted)
        if whole and self.table.neighbours is Neighbours.REPLACE_ONE:
            return SumSensitivity(0, 0)
        return self.contribution.sensitivity(summand)

    def _narrow_keys(self) -> tuple[Grouping, ...]:
        """Return the keys with groups for those values alone that public facts allow."""
        keys = list(self.keys)
        for each in self._key_values:
            for at, column in zip(each.keys, each.rows.T, strict=True):
                keys[at] = keys[at].narrow(column, self._can_miss(at))
        return tuple(keys)

    def _can_miss(self, at: int) -> bool:
        """Return whether rows can exist in which a key is missing."""
        part = self.keys[at].part
        if part.present or is_present(part.value, self.source):
            return False
        known = [each for each in self._key_values if at in each.keys]
        return all((each.rows[:, each.keys.index(at)] == NO_VALUE).any() for each in known)

    def _with_nulls(self) -> tuple[Grouping, ...]:
        """Return the keys, each with a group for rows where it is missing, if by declaration it can be."""
        full = tuple(replace(key, nulls=self._can_miss(at)) for at, key in enumerate(self.keys))
        if self.discovers_keys:
            return full
        # With many keys these groups would be most of the answer: past the limit it stays without them.
        followed = self._with_followers(full)
        if math.prod(key.size for key in followed) <= MOST_CELLS:
            return followed
        return self._with_followers(tuple(replace(key, nulls=False, leaves_out=key.nulls) for key in full))

    def _check_keys(self) -> None:
        """Refuse groups whose names would say something about rows, and too many groups."""
        for key in self.keys:
            if key.part is MISSING:
                raise PolicyError("SF-Q134", "A key of GROUP BY is always NULL.", try_="GROUP BY a column")
            if isinstance(key.domain, Numbers) and not key.domain.known:
                raise PolicyError(
                    "SF-Q109",
                    "GROUP BY takes numbers only if they are whole.",
                    why="its values are not listed",
                    try_="FLOOR(age / 10), or sf.between(…, step=1) when the table is registered",
                )
        self._check_levels()

    def _check_cells(self) -> None:
        """Refuse too many groups."""
        # Every listed group is in the answer, empty or not, so their number decides how large it is.
        levels = self.question.levels or (tuple(range(len(self.keys))),)
        cells = sum(math.prod(self.keys[at].size for at in level) for level in levels)
        if not self.discovers_keys and cells > MOST_CELLS:
            raise PolicyError("SF-Q113", f"A question has at most {MOST_CELLS:,} groups.", asked=f"{cells:,}")

    def _check_levels(self) -> None:
        """Refuse levels of groups that are not listed."""
        if self.question.levels and self.discovers_keys:
            raise PolicyError(
                "SF-Q143",
                "ROLLUP, CUBE and GROUPING SETS need groups that are listed.",
                try_="columns declared with sf.one_of(…)",
            )


def _list_following(cells: NDArray[np.intp], first: int) -> list[int]:
    """Return which other rows follow from one: wherever it has one value, they have one too."""
    many = len(np.unique(cells[first]))
    others = [at for at in range(len(cells)) if at != first]
    return [at for at in others if np.unique(cells[[first, at]], axis=1).shape[1] == many]


def _rankable(part: LoweredValue) -> LoweredValue:
    """Return a value with an order and not too many places, or refuse it."""
    domain = part.domain
    if part is MISSING:
        raise PolicyError("SF-Q134", "The argument of a quantile is always NULL.", try_="a column")
    if not isinstance(domain, Numbers | Periods):
        part, domain = require_number(part, "The argument of a quantile")
    if domain.size > MOST_PLACES:
        if isinstance(domain, Periods):
            raise PolicyError(
                "SF-Q158", "A quantile is chosen among at most 2^22 places.", try_="DATE_TRUNC('hour', …)"
            )
        part = limit_places(part, domain, MOST_PLACES - 1)
    return part


def _listed(part: LoweredValue, groups: int) -> LoweredValue:
    """Return a value that MODE can choose from, or refuse it."""
    if part is MISSING:
        raise PolicyError("SF-Q134", "The argument of MODE is always NULL.", try_="a column")
    domain = part.domain
    if not is_countable(domain):
        raise PolicyError(
            "SF-Q109",
            "MODE takes a column whose values are listed.",
            why="the value that is shown would give away that somebody has it",
            try_="sf.one_of(…) when the table is registered, MODE(FLOOR(age / 10)), or "
            "SELECT note, COUNT(*) AS n FROM visits GROUP BY note ORDER BY n DESC LIMIT 1, with a delta",
        )
    if groups * domain.size > MOST_NUMBERS:
        raise PolicyError(
            "SF-Q113",
            f"MODE counts at most {MOST_NUMBERS:,} values in all groups together.",
            asked=f"{groups * domain.size:,}",
            try_="coarser values or fewer groups",
        )
    return part
