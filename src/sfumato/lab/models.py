"""What a session learns from tables: models, synthetic rows, and how good either is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.curator.payer import LabAccess, Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.deep.tables.quote import TrainingQuote
    from sfumato.deep.trainer import Trainer
    from sfumato.lab.partition import Partition
    from sfumato.lab.query import Query
    from sfumato.learn.base.estimator import PaidEstimator
    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation
    from sfumato.queries.frames import Frame
    from sfumato.synth import MERF, Diffusion, Marginals, Moments, Twin
    from sfumato.synth.images.diffusion_split import DiffusionSplit
    from sfumato.synth.quote import SynthesisQuote

Fitted = TypeVar("Fitted", bound="PaidEstimator | Trainer | Marginals | Moments | MERF | Diffusion | Twin")


class ModelDesk:
    """The part of a session that is about models and synthetic rows. `Session` is one."""

    _lab: LabAccess
    _payer: Payer

    def fit(
        self,
        estimator: Fitted,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str] = (),
        target: str | None = None,
        columns: Sequence[str] = (),
        rows_per_unit: int | None = None,
        split: tuple[float, str] | None = None,
    ) -> Fitted:
        """Learn from a table, with bounds and classes from the catalog; charged first, round by round.

        The table is given by its name, or as a frame such as `s.table("visits").where("age >= 18")`.
        One row of each unit counts, or as many as `rows_per_unit` says, which is priced for so many. A
        `sf.deep.Trainer` is charged once, for all its steps, and takes all rows of a unit that the catalog
        allows, or as many as said, at the same price.
        `split=(0.8, "train")` learns from four units in five, which a keyed hash chooses, and leaves the
        others for `split=(0.8, "test")`. A `sf.synth.Marginals` takes `columns`, and is charged once,
        as are a `sf.synth.Moments`, which takes features that are numbers, and a `sf.synth.MERF` or
        a `sf.synth.Diffusion`, which take listed ones too.
        """
        rows = _select_rows(table, "fit")
        # Modules need torch and nothing of scikit-learn, estimators the other way round.
        if _is_trainer(estimator):
            from sfumato.deep.tables.fit import fit_trainer

            trainer: Any = estimator
            fit_trainer(self._payer, trainer, rows, features, target, rows_per_unit, split)
            return estimator
        from sfumato.learn.base.fit_table import fit_table
        from sfumato.synth import MERF, Diffusion, Marginals, Moments, Twin
        from sfumato.synth.fit_table import fit_marginals
        from sfumato.synth.images.diffusion_tables import fit_diffusion
        from sfumato.synth.images.over_tables import fit_generator
        from sfumato.synth.twin import fit_twin

        others: dict[type, Any] = {
            Marginals: fit_marginals,
            Moments: fit_generator,
            MERF: fit_generator,
            Diffusion: fit_diffusion,
            Twin: fit_twin,
        }
        fits = others.get(type(estimator), fit_table)
        each = 1 if rows_per_unit is None else rows_per_unit
        fitted: Fitted = fits(self._payer, estimator, rows, columns or features, target, each, split)
        return fitted

    @overload
    def quote(
        self,
        asked: Trainer,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str],
        target: str | None = None,
        rows_per_unit: int | None = None,
        split: tuple[float, str] | None = None,
    ) -> TrainingQuote: ...

    @overload
    def quote(
        self,
        asked: Marginals,
        *,
        table: str | Frame[Query, Partition],
        columns: Sequence[str],
        rows_per_unit: int | None = None,
    ) -> SynthesisQuote: ...

    @overload
    def quote(
        self,
        asked: Moments | MERF,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str],
        target: str,
        split: tuple[float, str] | None = None,
    ) -> SynthesisQuote: ...

    @overload
    def quote(
        self,
        asked: Diffusion,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str],
        target: str,
        split: tuple[float, str] | None = None,
    ) -> DiffusionSplit: ...

    def quote(
        self,
        asked: Any,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str] = (),
        target: str | None = None,
        columns: Sequence[str] = (),
        rows_per_unit: int | None = None,
        split: tuple[float, str] | None = None,
    ) -> TrainingQuote | SynthesisQuote | DiffusionSplit:
        """Return what `fit` would charge for a `sf.deep.Trainer`, or how a synthesis would spend its budget.

        Nothing is read and nothing is spent.
        """
        from sfumato.synth import MERF, Diffusion, Marginals, Moments
        from sfumato.synth.fit_table import quote_marginals
        from sfumato.synth.images.diffusion_tables import plan_diffusion
        from sfumato.synth.images.over_tables import plan_generator

        rows = _select_rows(table, "quote")
        if type(asked) is Marginals:
            return quote_marginals(self._payer, asked, rows, columns, rows_per_unit or 1)
        given = self._payer, asked, rows, features, target, rows_per_unit or 1, split
        if type(asked) in (Moments, MERF):
            return plan_generator(*given).quote()
        if type(asked) is Diffusion:
            return plan_diffusion(*given).split
        if not _is_trainer(asked):
            raise UsageError(
                "SF-E138",
                "Only a sf.deep.Trainer and the generators of sf.synth have a quote.",
                why="other estimators cost what their epsilon, delta or rho says",
                try_="s.fit(estimator, …), which charges what was typed",
            )
        from sfumato.deep.tables.fit import quote_trainer

        return quote_trainer(self._payer, asked, rows, features, target, rows_per_unit, split)

    def twin(
        self,
        table: str,
        rows: int | None = None,
        *,
        seed: int | None = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> pa.Table:
        """Return a stand-in for a table, with its names, types and ranges, to rehearse questions with.

        It costs nothing: it is the one that the steward published, or else it is drawn from what is declared
        of the table alone. With epsilon, epsilon and delta, or rho, one- and two-way marginals are bought.
        """
        from sfumato.lab.synthetic.rehearsal import ROWS, find_twin
        from sfumato.queries.aggregations import require_name
        from sfumato.synth import Twin

        bought = Twin(epsilon=epsilon, delta=delta, rho=rho)
        if bought.is_bought:
            size = ROWS if rows is None else parse_whole(rows, "rows")
            return self.fit(bought, table=table).sample(size, seed=seed)
        return find_twin(self._lab, self._lab.table(require_name(table)), rows, seed)

    def evaluate(
        self,
        model: Any,
        *,
        table: str | Frame[Query, Partition],
        target: str,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        split: tuple[float, str] | None = None,
        confidence: float = 0.95,
        bins: int = 20,
    ) -> Evaluation | RegressionEvaluation:
        """Measure a model on one row of each unit of a table, or of a frame; charged first.

        `split=(0.8, "test")` measures it on the units that a fit with `split=(0.8, "train")` left out.
        """
        from sfumato.learn.evaluate_tables import EvaluationRequest, evaluate_table

        rows, spend = _select_rows(table, "evaluate"), {"epsilon": epsilon, "delta": delta, "rho": rho}
        asked = EvaluationRequest(target, spend, split, confidence, bins)
        return evaluate_table(self._payer, model, rows, asked)


def _is_trainer(estimator: object) -> bool:
    """Say whether this is a trainer, which needs torch; nothing is imported to find out."""
    kind = type(estimator)
    return (kind.__module__, kind.__name__) == ("sfumato.deep.trainer", "Trainer")


def _select_rows(table: str | Frame[Query, Partition], asked: str) -> str | Relation:
    """Return the name of a table, or which rows of tables a frame has."""
    from sfumato.queries.aggregations import require_name
    from sfumato.queries.frames import Frame

    return table.select_rows(asked) if isinstance(table, Frame) else require_name(table)
