"""The oracle over a table behind the curator: every round is charged at the gate before anything is read.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.gate import decode_answer
from sfumato.curator.lower.computed import ComputedColumns
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.plan.selections import plan_choice, plan_ranks
from sfumato.curator.question.relation import Alias, BaseTable
from sfumato.engines.kernels.held_rows import hold_rows
from sfumato.engines.rows import Scan
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import AtLeast, AtMost, Every, UnitBlock
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.oracle.blocks import Constant, Either
from sfumato.oracle.declared import require_labels
from sfumato.oracle.protocol import Oracle
from sfumato.oracle.row_kernels import price_kernel
from sfumato.oracle.table_blocks import price_blocks, price_histograms, split_histograms
from sfumato.oracle.table_features import centre_features, clip_source_rows
from sfumato.privacy.account import price
from sfumato.privacy.events import Sequential
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.plan.selections import Ranked
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.relation import Relation
    from sfumato.engines.values import Predicate
    from sfumato.noise import TopK
    from sfumato.oracle.arrays.integer_rows import RowTransform
    from sfumato.oracle.blocks import CellKey, SumBlock, Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import GradientQuestion
    from sfumato.oracle.row_kernels import RowKernel


class TableOracle(Oracle):
    """Answers from a table behind the curator. Each question is one round: one charge and one scan."""

    scans = True

    def __init__(self, rounds: FitRounds, rows: RowSource, declared: Declared, budget: FitBudget) -> None:
        super().__init__(declared, budget)
        self._rounds, self._rows = rounds, rows
        self.rows_per_unit = rows.max_rows
        self.replaced = rows.table.neighbours is Neighbours.REPLACE_ONE

    def transform_rows(self, transform: RowTransform) -> TableOracle:
        centred = centre_features(self.declared, transform)
        rows, declared = clip_source_rows(self._rows, centred, transform.length, transform.target_reach)
        return self._over(rows, declared)

    def with_columns(self, values: Sequence[Value]) -> tuple[TableOracle, list[Value]]:
        layers, known = ComputedColumns(self._rows), ValueRanges(self.declared.ranges)
        columns = layers.add_columns(values)
        ranges = {at: known.find(each) for at, each in zip(columns, values, strict=True)}
        declared = replace(self.declared, ranges={**self.declared.ranges, **ranges})
        return self._over(layers.source, declared), list(columns)

    def _over(self, rows: RowSource, declared: Declared) -> TableOracle:
        """Return an oracle with the same rounds and budget over other columns of the same rows."""
        return TableOracle(self._rounds, rows, declared, self.budget)

    def _quantiles(
        self, values: tuple[Value, ...], keys: tuple[CellKey, ...], ranked: Ranked, spend: Spend
    ) -> list[list[list[int]]]:
        (answer,) = self._rounds.pay(plan_ranks(self._rows, keys, values, ranked, spend), self.budget)
        found: list[list[list[int]]] = answer
        return found

    def _select(self, terms: tuple[Value, ...], mechanism: TopK, spend: Spend) -> list[int]:
        plan = plan_choice(self._rows, terms, mechanism, spend)
        (places,) = self._rounds.pay(plan, self.budget)
        found: list[int] = places
        return found

    def release_objective(self, kernel: RowKernel) -> NDArray[np.float64]:
        target = require_labels(self.declared)
        # A class that is missing must not be an error, so it has a code of its own.
        values = [*(each.value for each in self.declared.features), Either(target.value, Constant(-1))]
        plan = price_kernel(self._rows, values, kernel, self.budget.main)
        (steps,) = self._rounds.pay(plan, self.budget)
        return np.array(steps, dtype=np.float64)

    def _gradients(self, asked: GradientQuestion, noise: NoisyBlock, spend: Spend) -> Any:
        # Scores and gradients become columns, so that no part of them is computed twice in a scan.
        layers = ComputedColumns(self._rows)
        block = asked.build_block(self.declared, asked.lower_terms(self.declared, layers.add_columns))
        (answer,) = self._rounds.pay(price_blocks(layers.source, (), (block,), spend), self.budget)
        # Noisy integers may be wider than 64 bits.
        return np.array(answer, dtype=object)

    def _sums(
        self,
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[Any]:
        (answer,) = self._rounds.pay(price_blocks(self._rows, keys, blocks, spend), self.budget)
        ends = np.cumsum([len(block.terms) for block in blocks])[:-1]
        return np.split(np.array(answer, dtype=object), ends)

    def _histograms(
        self,
        groupings: tuple[tuple[CellKey, ...], ...],
        blocks: tuple[SumBlock, ...],
        keys: tuple[CellKey, ...],
        spend: Spend,
    ) -> list[list[Any]]:
        plan = price_histograms(self._rows, groupings, keys, blocks, spend)
        (answer,) = self._rounds.pay(plan, self.budget)
        return split_histograms(answer, groupings, keys, len(blocks))


class FitRounds:
    """The rounds of one fit, each paid for at the gate.

    Before the first one it is checked that the accounts hold the whole fit, so that none is begun in vain.
    """

    def __init__(
        self,
        payer: Payer,
        name: str,
        verb: str = "fit",
        report: Callable[[], None] | None = None,
    ) -> None:
        self._payer, self._name, self._verb, self._done = payer, name, verb, 0
        self._report = report

    def hold_rows(self) -> AbstractContextManager[None]:
        """Return a context in which the rounds may keep rows in memory from one to the next."""
        return hold_rows()

    def pay(self, plan: Plan[Any, Any], budget: FitBudget) -> list[Any]:
        """Charge for a round and return its answers, one a step of the plan."""
        if not self._done:
            self._require_whole(plan, budget)
        self._done += 1
        answer = self._payer.pay(plan, f"{self._verb} {self._name}, round {self._done}").answer
        if self._report is not None:
            self._report()
        return decode_answer(answer)

    def _require_whole(self, first: Plan[Any, Any], budget: FitBudget) -> None:
        # A fit that was done before is free, round by round.
        if self._payer.was_answered(first):
            return
        # A fit may end up paying in either way, and must be able to.
        for events in {tuple(budget.events), tuple(budget.sums)}:
            cost = price(Sequential(events))
            if not self._payer.can_afford(first, cost):
                left = self._payer.find_left(first)
                raise BudgetError(
                    "SF-B101",
                    f"Not enough privacy budget to {self._verb} {self._name} on '{first.table.name}'.",
                    asked=str(budget),
                    left=f"one question of up to ε = {format_number(left)}",
                    why="a fit starts only if all its rounds can be paid for",
                )


# ---- what a fit is asked on --------------------------------------------------------------------------------


_BLOCKS = 2**16
"""Blocks that units are in, by bits of a keyed hash."""


def lower_private_table(payer: Payer, table: str | Relation, split: Any = None) -> RowSource:
    """Return the rows of a table, or of what is left of it, that has someone to protect in it.

    A `split` keeps the units on one side of a line that a keyed hash of the unit draws: it depends on the
    unit alone, so it is a condition like any other and costs nothing.
    """
    relation = Alias(BaseTable(table), table) if isinstance(table, str) else table
    rows = lower_relation(relation, payer.lab.table)
    if split is not None:
        rows = _keep_side(rows, split)
    if rows.table.is_public:
        raise PolicyError(
            "SF-Q144",
            f"'{rows.table.name}' is public: there is no one to protect in it.",
            try_="scikit-learn's own estimators",
        )
    return rows


def _keep_side(rows: RowSource, split: Any) -> RowSource:
    """Return the rows of the units on one side: as many as the share says for training, the rest to test."""
    share, side = _read_split(split)
    # A block is found by the unit of a stored row, which only the scan of one table has.
    if not isinstance(rows.rows, Scan):
        raise PolicyError(
            "SF-U104", "split takes the rows of one table.", try_="a table without a JOIN or a subquery"
        )
    block, line = UnitBlock(rows.rows.at, _BLOCKS), round(share * _BLOCKS)
    kept: Predicate = AtMost(block, line - 1) if side == "train" else AtLeast(block, line)
    return replace(rows, where=Every((rows.where, kept)))


def _read_split(split: Any) -> tuple[float, str]:
    try:
        share, side = split
        known = 0 < float(share) < 1 and side in ("train", "test")
    except (TypeError, ValueError):
        known = False
    if not known:
        raise UsageError(
            "SF-U104",
            "split must be the share of units to train on, and which side is meant.",
            try_='split=(0.8, "train") for the fit, split=(0.8, "test") to evaluate',
        )
    return float(share), str(side)


def describe_unit(rows: RowSource, each: int) -> str:
    """Return who is protected, in words."""
    unit = rows.table.unit.column or "row"
    return f"one {unit}" if each == 1 else f"one {unit} with up to {each} rows"


def check_column_names(features: Any) -> tuple[str, ...]:
    """Return the names of the features, each once."""
    names = (features,) if isinstance(features, str) else tuple(features)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise UsageError(
            "SF-E110", "features must be names of columns, each given once.", try_='features=["age", "cost"]'
        )
    return names
