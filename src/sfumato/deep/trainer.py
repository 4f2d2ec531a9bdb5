"""Training any torch module by noisy sums of clipped gradients (DP-SGD)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sfumato.deep.prices import find_spent_epsilon, solve_charged_multiplier
from sfumato.deep.rows import read_rows
from sfumato.deep.run import TrainingRun
from sfumato.deep.settings import TrainingSettings
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.exact import parse_whole
from sfumato.viz import spent_curve

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.deep.tables.coding import TableCoding
    from sfumato.viz import Chart

_DRAWN = 100
"""Steps whose cost is drawn, of all that there are."""


@dataclass
class Trainer(TrainingSettings):
    """Trains a module on rows so that no unit of protection moves the result much.

    Privacy
    -------
    Protects : one unit, add/remove, with all of its rows up to `rows_per_unit`; with `sampling="fixed"` one
               that is replaced.
    Costs    : (ε, δ): `steps` Gaussian steps on samples, whose noise `multiplier_` is the least that costs no
               more, by privacy-loss distributions.
               The run is one event, `event_`.
    Because  : docs/proofs/dp-sgd.md
    Assumes  : the number of units is public, as `rows` declares it; sums and noise in floating point behave
               as real numbers do (idealised arithmetic); how long a step takes is not observed.
    """

    multiplier_: float = field(default=0.0, init=False)
    coding_: TableCoding | None = field(default=None, init=False)

    def fit(self, data: Any, groups: Any = None) -> Self:
        """Train on (inputs, targets); `groups` names the unit of each row where units have several."""
        self._require_consistent(groups)
        rows = read_rows(data, groups, parse_whole(self.rows_per_unit, "rows_per_unit"))
        run = TrainingRun.begin(self, rows, None if self.budget is None else solve_charged_multiplier)
        if run.checkpoint is None:
            run = self._pay(run)
            self.keep(run)
            run.train()
            return self
        with run.checkpoint.hold():
            run.checkpoint.go_on(run, counted=False)
            self.keep(run)
            run.train()
        return self

    def _pay(self, run: TrainingRun) -> TrainingRun:
        """Charge the account for a run, as one (ε, δ) where only that is admitted, and return the run."""
        account = self.budget
        if account is None:
            return run
        # Asked first: it refuses a run that is priced for other neighbours, which a claim would not tell.
        if not account.admits([run.event]) and run.can_be_one:
            whole = run.price_as_one()
            if whole.claim is not None and account.admits([whole.claim]):
                account.charge(whole.claim, "fit Trainer")
                return whole
        account.require([run.event])
        account.charge(run.event, "fit Trainer")
        return run

    def keep(self, run: TrainingRun, unit: str = "") -> None:
        """Keep what is public about a run."""
        self.multiplier_, self.event_, self.steps_ = run.multiplier, run.event, run.steps
        self.guarantee_ = run.describe(unit)

    def encode(self, frame: Any) -> Tensor:
        """Return rows of one's own as inputs of a module that was trained behind the curator."""
        if self.coding_ is None:
            raise UsageError(
                "SF-E176",
                "This trainer knows no table whose columns it could encode.",
                try_="s.fit(trainer, table=…, features=…, target=…) before",
            )
        return self.coding_.encode(frame)

    def plot(self) -> Chart:
        """Return a chart of what is public about a run: what it had cost after each of its steps."""
        if not self.multiplier_:
            raise UsageError("SF-E179", "There is no run to draw yet.", try_="trainer.fit(…) before")
        at = sorted({max(1, round(self.steps_ * part / _DRAWN)) for part in range(1, _DRAWN + 1)})
        spent = [find_spent_epsilon(self.event_, self.epsilon, self.delta, steps) for steps in at]
        public = (
            f"sums divided by {self.batch_size:,}, noise of {format_number(self.multiplier_)} clipping norms"
        )
        return spent_curve([0, *at], [0.0, *spent], title="ε spent by steps", subtitle=public)

    def require_untrained(self) -> None:
        """Refuse a second run, and settings that contradict each other."""
        if self.multiplier_:
            raise UsageError(
                "SF-E179",
                "This trainer has trained already, and its price was for one run.",
                try_="another Trainer, which costs as much again if it learns from the same rows",
            )
        if self.augment is None and self.augmentations != 1:
            raise UsageError("SF-E179", "Copies of rows need a function that changes them.", try_="augment=…")
        if self.budget is not None and self.checkpoint is not None:
            raise UsageError(
                "SF-E179",
                "A run that an account pays for has no checkpoints.",
                why="the account does not know which run goes on",
                try_="s.fit(trainer, …) behind a curator, whose ledger knows it",
            )

    def _require_consistent(self, groups: Any) -> None:
        self.require_untrained()
        if groups is None and self.rows_per_unit != 1:
            raise UsageError(
                "SF-E179", "Units with several rows need names.", try_="fit(data, groups=people)"
            )
