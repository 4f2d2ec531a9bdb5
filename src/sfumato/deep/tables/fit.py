"""Training a module on a table behind the curator: one charge, durable before any row is read, and one scan.

`session.fit` calls `fit_trainer`. Everything is checked on made-up rows first: what the catalog does not say,
a module that mixes rows or a wrong setting is refused before anything is charged.

Because : docs/proofs/dp-sgd.md#behind-the-curator
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from sfumato.curator.catalog.domains import Listed
from sfumato.curator.gate import decode_answer, encode_answer, read_steps
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.curator.question.relation import Name
from sfumato.deep.checkpoints import refuse_resuming
from sfumato.deep.described import describe_trainer
from sfumato.deep.prices import solve_charged_multiplier
from sfumato.deep.run import TrainingRun
from sfumato.deep.tables.coding import TableCoding
from sfumato.deep.tables.kernel import TrainingKernel, read_weights
from sfumato.deep.tables.quote import TrainingQuote
from sfumato.engines.rows import Scan
from sfumato.engines.values import Every
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.noise.audit_hook import unobserved
from sfumato.oracle.one_run import charge_as_one_run, choose_offer
from sfumato.oracle.over_tables import check_column_names, describe_unit, lower_private_table
from sfumato.oracle.row_kernels import price_kernel, spread_rows
from sfumato.oracle.row_layout import RowLayout, list_figures
from sfumato.oracle.table_blocks import limit_rows
from sfumato.oracle.table_features import declare_features
from sfumato.privacy.exact import parse_exact, parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from sfumato.curator.gate import Read
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.question.relation import Relation
    from sfumato.deep.trainer import Trainer
    from sfumato.ledger import Released
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.row_kernels import KernelStep


_TEXT = "fit Trainer"
"""What the ledger says of a run, for people to read."""


_MOST_BYTES = 2**28
"""Bytes of weights that are kept as an answer; databases hold texts of a thousand million characters."""


def fit_trainer(
    payer: Payer,
    trainer: Trainer,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int | None,
    split: Any = None,
) -> Trainer:
    """Train on a table and return the trainer; its module has the weights that were released."""
    offer = TrainingOffer.make(payer, trainer, table, features, target, rows_per_unit, split)
    # An answer that is kept already needs no rehearsal.
    if not payer.was_answered(offer.plan):
        unobserved(offer.kernel.run.rehearse)
    (answer,) = decode_answer(offer.pay(payer).answer)
    read_weights(trainer.module, answer["weights"])
    trainer.module.eval()
    trainer.rows = offer.kernel.run.declared
    trainer.keep(offer.kernel.run, offer.unit)
    trainer.coding_ = offer.kernel.coding
    return trainer


def quote_trainer(
    payer: Payer,
    trainer: Trainer,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int | None,
    split: Any = None,
) -> TrainingQuote:
    """Return what `fit_trainer` would charge. Nothing is read and nothing is spent."""
    offer = TrainingOffer.make(payer, trainer, table, features, target, rows_per_unit, split)
    run = offer.kernel.run
    # The copy that is trained has the number of units that the catalog declares.
    promised = run.describe(offer.unit)
    standing = payer.standing(offer.plan, in_stretches=run.checkpoint is not None)
    return TrainingQuote(promised, run.steps, run.declared, run.multiplier, standing)


@dataclass(frozen=True, slots=True)
class TrainingOffer:
    """A run that was checked and priced, and has read nothing."""

    plan: Plan[KernelStep, None]
    kernel: TrainingKernel
    unit: str

    @classmethod
    def make(
        cls,
        payer: Payer,
        trainer: Trainer,
        table: str | Relation,
        features: Sequence[str],
        target: str | None,
        rows_per_unit: int | None,
        split: Any,
    ) -> TrainingOffer:
        """Check a run on made-up rows and find its noise and its price, from public facts alone."""
        trainer.require_untrained()
        refuse_hostile(payer)
        _require_small(trainer.module)
        names, goal = check_column_names(features), _require_target(target)
        rows = lower_private_table(payer, table, split)
        _require_sampling(trainer, rows)
        bounded, each = limit_rows(rows, _choose_rows_each(trainer, rows, rows_per_unit))
        bounded, declared = declare_rows(trainer, bounded, names, goal)
        # What the user holds stays as it is until there is an answer.
        working = copy.copy(trainer)
        working.module, working.rows = copy.deepcopy(trainer.module), find_units(trainer.rows, rows)
        coding = TableCoding.of(declared, *_find_shape(working.module, len(declared.features)))
        run = TrainingRun.begin(working, coding.make_examples(each), solve_charged_multiplier)
        figures = list_figures(declared)
        if each > 1:
            bounded, figures = spread_rows(bounded, figures, each)
        described, layout = _find_description(run), RowLayout.of(declared)
        unit = describe_unit(rows, each)

        def price_run(run: TrainingRun) -> TrainingOffer:
            kernel = TrainingKernel(described, layout, each, run.event, run, coding)
            plan = price_kernel(bounded, figures, kernel, _write_spend(trainer, run.multiplier))
            return cls(plan, kernel, unit)

        def price_whole() -> TrainingOffer:
            whole = run.price_as_one()
            if whole.claim is None:
                raise AssertionError("a run that is priced as one has a claim")
            offer = price_run(whole)
            return replace(offer, plan=charge_as_one_run(offer.plan, whole.claim))

        one_run = price_whole if run.can_be_one else None
        return choose_offer(payer, price_run(run), one_run, begun=_find_begun(run))

    def pay(self, payer: Payer) -> Released:
        """Charge for the run and train, or go on with what was charged before."""
        run, plan = self.kernel.run, self.plan
        if run.checkpoint is None or payer.was_answered(plan):
            return payer.pay(plan, _TEXT)
        checkpoint, cut = run.checkpoint, run.checkpoint.stretches
        checkpoint.request = plan.request

        def begin(draw: Callable[[], int]) -> Read:
            if run.done == run.steps:
                # All steps were taken and nothing was released: no row is needed for that.
                return lambda _: encode_answer([self.kernel.finish()])
            if cut.count - draw() < cut.count_left(run.done) - 1:
                raise refuse_resuming(cut.spare)
            run.draw = draw
            return partial(read_steps, engine=payer.lab.engine)

        with checkpoint.hold():
            # The file is there before the charge, so that a charge is never without its run.
            checkpoint.go_on(run, counted=True)
            return payer.pay_stretches(plan, _TEXT, cut.count, begin, whole=run.claim is not None)


def declare_rows(
    trainer: Trainer, rows: RowSource, features: Sequence[str], target: str
) -> tuple[RowSource, Declared]:
    """Return columns as inputs and a target of a module: a class where the catalog lists its values."""
    classifies = isinstance(lower_expression(Name(target), rows.scope).domain, Listed)
    return declare_features(rows, features, target, _FeatureRules.of(trainer), classifies)


def _find_description(run: TrainingRun) -> str:
    """Return what a run is recognised by: from its checkpoint, if it goes on."""
    checkpoint = run.checkpoint
    if checkpoint is None:
        return describe_trainer(run.trainer)
    if checkpoint.read() is None:
        checkpoint.described = describe_trainer(run.trainer)
    return checkpoint.described


def _find_begun(run: TrainingRun) -> str | None:
    """Return the question that a run was begun with, if it goes on from its checkpoint."""
    saved = None if run.checkpoint is None else run.checkpoint.read()
    return None if saved is None else str(saved.get("request"))


@dataclass(frozen=True, slots=True)
class _FeatureRules:
    """What a trainer says of its features beyond the catalog."""

    bounds: Any
    missing: Any
    listed: bool = False

    @classmethod
    def of(cls, trainer: Trainer) -> _FeatureRules:
        return cls(trainer.bounds, trainer.missing)


def _write_spend(trainer: Trainer, multiplier: float) -> GaussianSpend:
    epsilon, delta = parse_exact(trainer.epsilon, "epsilon"), parse_exact(trainer.delta, "delta")
    words = f"ε = {format_number(epsilon)}, δ = {format_number(delta)} for all steps"
    return GaussianSpend(parse_exact(multiplier, "multiplier"), words)


def _find_shape(module: nn.Module, inputs: int) -> tuple[tuple[int, ...], torch.dtype]:
    """Return the shape of what the module says of one row, where that is one number, and its type."""
    kinds = [each.dtype for each in module.parameters() if each.is_floating_point()]
    kind = kinds[0] if kinds else torch.float32
    try:
        with torch.no_grad():
            shape = tuple(copy.deepcopy(module).eval()(torch.zeros(2, inputs, dtype=kind)).shape[1:])
    except Exception:  # the checks that follow say what is wrong with it
        return (), kind
    return (shape if shape == (1,) else ()), kind


# ---- what is refused ---------------------------------------------------------------------------------------


def refuse_hostile(payer: Payer) -> None:
    """Refuse to run a module for someone who is not trusted."""
    if payer.slots is not None:
        raise PolicyError(
            "SF-E132",
            "A hostile session trains no modules.",
            why="a module is a program that its author wrote, and it would run where the rows are",
            try_="an estimator of sf.learn, or an ordinary session for people who are trusted with the rows",
        )


def _require_small(module: nn.Module) -> None:
    """Refuse what a ledger could not keep, before it is charged."""
    size = sum(each.numel() * each.element_size() for each in module.state_dict().values())
    if size > _MOST_BYTES:
        raise PolicyError(
            "SF-E132",
            "The module has more weights than a ledger keeps.",
            most=f"{_MOST_BYTES >> 20} MiB",
            try_="a smaller module, or adapters beside frozen weights that everyone has",
        )


def _require_target(target: str | None) -> str:
    if target is None:
        raise UsageError(
            "SF-E132", "A module is trained towards a target.", try_='s.fit(trainer, …, target="ill")'
        )
    return target


def _require_sampling(trainer: Trainer, rows: RowSource) -> None:
    """Refuse batches that are priced for other neighbours than the table's."""
    replaced = rows.table.neighbours is Neighbours.REPLACE_ONE
    priced = "fixed" if replaced else "poisson"
    if trainer.sampling == priced:
        # Batches of a fixed size need all rows of the table, whose number is public.
        whole = isinstance(rows.rows, Scan) and rows.where == Every()
        if whole or not replaced:
            return
        raise PolicyError(
            "SF-E132",
            "Batches of a fixed size are drawn from a whole table.",
            why="how many rows satisfy a condition is not public",
            try_="the table without conditions",
        )
    raise PolicyError(
        "SF-E132",
        f"Batches of '{trainer.sampling}' sampling are not offered for this table.",
        neighbours=rows.table.relation,
        try_=f'sampling="{priced}"',
    )


def find_units(asked: int | None, rows: RowSource) -> int:
    """Return the declared number of units: the catalog's where it has one, or what was asked for."""
    known = rows.table.public_rows
    if asked is None and known is None:
        raise PolicyError(
            "SF-E132",
            "About how many units the table has is not declared, so no sampling rate follows.",
            why="the number of rows is itself protected, and is never counted for this",
            try_="rows=10_000, from what is public about the table",
        )
    given = known if asked is None else parse_whole(asked, "rows")
    if known is not None and given != known:
        raise PolicyError(
            "SF-E132",
            "The catalog declares another number of rows.",
            declared=f"{known:,}",
            try_=f"rows={known}",
        )
    if given is None:
        raise AssertionError
    return given


def _choose_rows_each(trainer: Trainer, rows: RowSource, asked: int | None) -> int:
    """Return how many rows of a unit count: as asked for, by the trainer, or all that the catalog allows."""
    if asked is not None:
        return parse_whole(asked, "rows_per_unit")
    own = parse_whole(trainer.rows_per_unit, "rows_per_unit")
    return own if own > 1 else rows.max_rows
