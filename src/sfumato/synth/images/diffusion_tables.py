"""Fitting `Diffusion` on a table behind the curator: one charge, one scan, moments and noisy steps.

Because : docs/proofs/synth-images.md#diffusion
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.gate import decode_answer
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_number
from sfumato.noise.audit_hook import unobserved
from sfumato.oracle.guarantee import IDEALISED, Guarantee
from sfumato.oracle.one_run import (
    can_be_one_run,
    charge_as_one_run,
    choose_offer,
    round_side_delta,
    state_one_run,
)
from sfumato.oracle.over_tables import check_column_names, lower_private_table
from sfumato.oracle.row_kernels import price_kernel
from sfumato.privacy.neighbours import Neighbours
from sfumato.synth.images.coded_rows import CodedForm
from sfumato.synth.images.diffusion import Diffusion
from sfumato.synth.images.diffusion_split import solve_after, solve_charged_after
from sfumato.synth.images.over_tables import declare_targeted, refuse_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.question.relation import Relation
    from sfumato.oracle.row_kernels import KernelStep
    from sfumato.synth.images.diffusion import Solve
    from sfumato.synth.images.diffusion_kernel import DiffusionKernel
    from sfumato.synth.images.diffusion_split import DiffusionSplit


@dataclass(frozen=True, slots=True)
class PlannedDiffusion:
    """A fit as it will be charged, from public facts alone."""

    kernel: DiffusionKernel
    plan: Plan[KernelStep, None]
    form: CodedForm
    split: DiffusionSplit
    promised: Guarantee


def fit_diffusion(
    payer: Payer,
    given: Diffusion,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> Diffusion:
    """Charge, train on a table, and return the generator, fitted."""
    # Importing this needs torch, without which nothing is charged.
    from sfumato.deep.tables.kernel import read_weights

    planned = plan_diffusion(payer, given, table, features, target, rows_per_unit, split)
    # An answer that is kept already needs no rehearsal.
    if not payer.was_answered(planned.plan):
        unobserved(planned.kernel.run.run.rehearse)
    (answer,) = decode_answer(payer.pay(planned.plan, "fit Diffusion").answer)
    denoiser = planned.kernel.run.denoiser
    read_weights(denoiser, answer["weights"])
    given.keep_release(answer, denoiser, planned.form, planned.split, planned.promised)
    return given


def plan_diffusion(
    payer: Payer,
    given: Diffusion,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> PlannedDiffusion:
    """Return what will be charged; what the catalog does not declare is refused here. Nothing is read."""
    from sfumato.deep.tables.fit import find_units

    _refuse_hostile(payer)
    # Of the object its parameters take part alone, and no method that was set on it.
    made = Diffusion(**{name: getattr(given, name) for name in Diffusion.PARAMETERS})
    rows = lower_private_table(payer, table, split)
    if rows_per_unit != 1 or target is None:
        raise refuse_rows("Diffusion takes one row of each unit, and a target.")
    _refuse_replaced(rows)
    declared = declare_targeted(rows, check_column_names(features), target, mixed=True)
    sizes = tuple(len(each.categories) for each in declared.listed)
    numbers = len(declared.numbers) + sum(sizes)
    units, form = find_units(made.rows, rows), CodedForm(declared.table_form(), len(declared.numbers), sizes)
    unit, known = declared.unit, "the number of units is public, as declared"

    def price_fit(solve: Solve) -> PlannedDiffusion:
        parts = made.plan_split(units, solve)
        kernel = made.make_kernel(parts, (numbers,), numbers, len(declared.classes), declared.bounds, sizes)
        words = (
            f"ε = {format_number(parts.epsilon)}, δ = {format_number(parts.delta)} for moments and all steps"
        )
        spend = GaussianSpend(parts.first.sigma, words)
        plan = price_kernel(declared.rows, declared.figures, kernel, spend)
        amounts = float(parts.epsilon), float(parts.delta)
        promised = Guarantee("add-remove", unit, *amounts, None, "", IDEALISED, "", known)
        return PlannedDiffusion(kernel, plan, form, parts, promised)

    by_curve = price_fit(solve_charged_after)
    epsilon, delta = by_curve.split.epsilon, round_side_delta(by_curve.split.delta)

    def price_whole() -> PlannedDiffusion:
        found = price_fit(
            lambda first, batches, steps, *_: solve_after(first, batches, steps, epsilon, delta)
        )
        plan = charge_as_one_run(found.plan, state_one_run(found.split.event, epsilon, delta))
        return replace(found, plan=plan, split=replace(found.split, as_one=True))

    return choose_offer(payer, by_curve, price_whole if can_be_one_run(epsilon, delta) else None)


def _refuse_hostile(payer: Payer) -> None:
    if payer.slots is not None:
        raise PolicyError(
            "SF-E132",
            "A hostile session trains no diffusion models.",
            why="how long training takes is not bounded beforehand",
            try_="sf.synth.Moments, or an ordinary session for people who are trusted with the rows",
        )


def _refuse_replaced(rows: RowSource) -> None:
    if rows.table.neighbours is Neighbours.REPLACE_ONE:
        raise PolicyError(
            "SF-E132",
            "Diffusion models are trained for units that are added or removed.",
            neighbours=rows.table.relation,
            try_="sf.synth.Moments",
        )
