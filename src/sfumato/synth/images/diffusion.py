"""`Diffusion`: synthetic rows of a diffusion model that is trained with noise (Dockhorn and others, 2023)."""

from __future__ import annotations

import secrets
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.fit_tally import FitTally
from sfumato.oracle.guarantee import IDEALISED, Guarantee
from sfumato.privacy.events import Gaussian
from sfumato.privacy.exact import parse_exact, parse_positive, parse_whole
from sfumato.synth.images.class_moments import MomentsKernel
from sfumato.synth.images.coded_rows import CodedRows
from sfumato.synth.images.diffusion_kernel import ClassCounts, DiffusionKernel
from sfumato.synth.images.diffusion_split import DiffusionSplit, solve_after
from sfumato.synth.images.gaussian_budget import multiplier_of, read_gaussian_budget, unfitted
from sfumato.synth.images.public_basis import PublicBasis
from sfumato.synth.own_fits import pay_for_own_fit
from sfumato.synth.quote import SynthesisQuote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sfumato.deep.batches import Batches
    from sfumato.deep.generators.denoiser import Denoiser
    from sfumato.deep.generators.diffusion import DiffusionSettings
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.privacy.events import Event
    from sfumato.synth.images.coded_rows import CodedForm

    Solve = Callable[[Event, Batches, int, Fraction, Fraction], float]
    """Returns the noise multiplier of so many steps after an event, for ε and δ."""

_COUNTS = Fraction(1, 100)
"""Share of the budget for class counts, where no moments are bought. Privacy does not depend on it."""
_MOST_WARM = Fraction(9, 10)
_LARGEST_BATCH = 2_048
_MOST_DRAWS = 1_024
"""Draws of one row, which are in memory together."""
_STEPS_BY_EPSILON, _FEWEST, _MOST = 150, 150, 1_500
"""Steps for each ε, at least and at most, chosen on held-out training images (benchmarks/synth_images.py)."""
_SAMPLERS = {"ddim": 0.0, "stochastic": 100.0}
"""Noise that a sampler adds again on the way, in all."""


class Diffusion:
    """Synthetic labelled images, vectors or mixed tables from a diffusion model, trained by noisy steps.

    A network learns to take noise off rows, by `sf.deep.Trainer`. Every row of a batch has `draws` draws of
    noise, whose losses are averaged within the row, so that they are bounded together and cost nothing more.
    Without labels, for a share `label_dropout` of draws, it also learns what rows are like whatever their
    class, which `sample(guidance=…)` uses. `parametrisation` is "edm" or, for very small ε, "v"; `network`
    is "mlp" or, for images, "unet", which takes far longer.

    `warm` is the share of the budget that buys `Moments` first, from whose samples the network learns before
    it sees a row; with 0 it begins with nothing, and a hundredth buys class counts.

    `bounds` and `classes` declare rows as for `MERF`. It needs torch.

    Privacy
    -------
    Protects : one row (own rows) or one unit (behind the curator), add/remove.
    Costs    : (epsilon, delta) for the whole fit: what is bought first and all steps, as one event.
    Because  : docs/proofs/synth-images.md#diffusion
    Assumes  : bounds, classes, settings and the number of rows are public; idealised arithmetic.
    """

    PARAMETERS = (
        *("epsilon", "delta", "bounds", "classes", "warm", "parametrisation", "network", "width", "draws"),
        *("label_dropout", "steps", "batch_size", "learning_rate", "average", "warm_steps", "rows", "seed"),
        *("verbose", "budget"),
    )
    guarantee_: Guarantee
    split_: DiffusionSplit
    quote_: SynthesisQuote

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        bounds: Any = None,
        classes: Any = None,
        warm: Any = Fraction(1, 4),
        parametrisation: str = "edm",
        network: str = "mlp",
        width: Any = None,
        draws: int = 4,
        label_dropout: float = 0.1,
        steps: Any = None,
        batch_size: Any = None,
        learning_rate: float = 1e-3,
        average: float = 0.99,
        warm_steps: int = 1_500,
        rows: Any = None,
        seed: int = 0,
        verbose: bool = False,
        budget: Any = None,
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.bounds, self.classes, self.warm = bounds, classes, warm
        self.parametrisation, self.network, self.width = parametrisation, network, width
        self.draws, self.label_dropout = draws, label_dropout
        self.steps, self.batch_size, self.learning_rate = steps, batch_size, learning_rate
        self.average, self.warm_steps, self.rows = average, warm_steps, rows
        self.seed, self.verbose, self.budget = seed, verbose, budget
        self._fits = FitTally()

    def fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Charge, then learn from own rows and their labels; one row is one unit."""
        given = CodedRows.of(X, y, self.bounds, self.classes if classes is None else classes)
        declared = len(given.rows) if self.rows is None else parse_whole(self.rows, "rows")
        split = self.quote(declared)
        kernel = self.make_kernel(split, given.shape, given.numbers, len(given.classes))
        others = pay_for_own_fit(self.budget, self._fits, split.event, split.delta, "fit Diffusion")
        with np.errstate(all="ignore"):
            released, denoiser = kernel.measure(given.rows, given.labels)
        promised = replace(self._promise(split), others=others)
        self.keep_release(released, denoiser, given.form, split, promised)
        return self

    def quote(self, rows: int) -> DiffusionSplit:
        """Return how a fit on so many rows would spend its budget. Nothing is read and nothing is spent."""
        return self.plan_split(rows, solve_after)

    # ---- what is checked and priced before rows are read ----

    def plan_split(self, rows: int, solve: Solve) -> DiffusionSplit:
        """Return how the budget is split, by a way to find the noise of training after another event."""
        # Without torch nothing could be trained, so nothing is charged.
        from sfumato.deep.batches import PoissonBatches

        declared, whole = parse_whole(rows, "rows"), self._fit_budget()
        if whole.epsilon is None:
            raise AssertionError(whole)
        size = min(_LARGEST_BATCH, max(declared // 8, 1)) if self.batch_size is None else self.batch_size
        size = parse_whole(size, "batch_size")
        if size > declared:
            raise _refuse("A batch is larger than all rows.", f"batch_size={size}", f"at most {declared}")
        usual = min(max(round(_STEPS_BY_EPSILON * whole.epsilon), _FEWEST), _MOST)
        steps = parse_whole(usual if self.steps is None else self.steps, "steps")
        warm = self._read_warm()
        first = Gaussian(
            parse_exact(float(multiplier_of(whole)) / float(warm or _COUNTS) ** 0.5, "multiplier")
        )
        batches = PoissonBatches(Fraction(size, declared))
        multiplier = solve(first, batches, steps, whole.epsilon, whole.delta)
        return DiffusionSplit(
            epsilon=whole.epsilon,
            delta=whole.delta,
            bought="moments" if warm else "class counts",
            first=first,
            training=batches.event(multiplier, steps),
            multiplier=multiplier,
            steps=steps,
            batch_size=size,
            rows=declared,
        )

    def _fit_budget(self) -> FitBudget:
        return read_gaussian_budget(self.epsilon, self.delta, None, "Diffusion")

    def _read_warm(self) -> Fraction:
        """Return the share of the budget that buys moments."""
        warm = parse_exact(self.warm, "warm")
        if not 0 <= warm <= _MOST_WARM:
            raise _refuse("warm is a share of the budget.", str(self.warm), f"from 0 to {float(_MOST_WARM)}")
        return warm

    def make_kernel(
        self,
        split: DiffusionSplit,
        shape: tuple[int, ...],
        numbers: int,
        classes: int,
        bounds: tuple[int, ...] = (),
        sizes: tuple[int, ...] = (),
    ) -> DiffusionKernel:
        """Return the mechanism for rows of a shape, checked on made-up rows, from public facts."""
        from sfumato.deep.generators.diffusion import DiffusionRun

        first: MomentsKernel | ClassCounts = (
            MomentsKernel(PublicBasis.of(shape), (), classes, split.first.sigma)
            if self._read_warm()
            else ClassCounts(classes, split.first.sigma)
        )
        first.require_drawable()
        settings = self._read_settings(split, shape, numbers, classes)
        trainer = settings.make_trainer(split.epsilon, split.delta, split.rows, bool(self.verbose))
        run = DiffusionRun.begin(settings, trainer, lambda *_: split.multiplier)
        return DiffusionKernel(first, run, bounds, sizes)

    def keep_release(
        self,
        released: Mapping[str, Any],
        denoiser: Denoiser,
        form: CodedForm,
        split: DiffusionSplit,
        promised: Guarantee,
    ) -> None:
        """Keep what was released, from which everything else is computed."""
        self._released, self._denoiser, self._form = released, denoiser, form
        self.split_, self.guarantee_ = split, promised
        self.quote_ = SynthesisQuote.of(promised.cost_in_words, split.list_parts())

    def _read_settings(
        self, split: DiffusionSplit, shape: tuple[int, ...], numbers: int, classes: int
    ) -> DiffusionSettings:
        from sfumato.deep.generators.denoiser import is_image
        from sfumato.deep.generators.diffusion import DiffusionSettings
        from sfumato.deep.generators.noise_levels import LEVELS

        _require_one_of("parametrisation", self.parametrisation, tuple(LEVELS))
        _require_one_of("network", self.network, ("mlp", "unet"))
        if self.network == "unet" and not is_image(shape):
            raise _refuse("A U-Net takes images.", f"rows of shape {shape}", '"mlp"')
        plain = 16 if self.network == "unet" else 256
        return DiffusionSettings(
            shape=shape,
            numbers=numbers,
            classes=classes,
            parametrisation=self.parametrisation,
            network=self.network,
            width=plain if self.width is None else parse_whole(self.width, "width"),
            draws=_read_draws(self.draws),
            drop=_read_share("label_dropout", self.label_dropout),
            steps=split.steps,
            batch_size=split.batch_size,
            learning_rate=float(parse_positive(self.learning_rate, "learning_rate")),
            average=_read_share("average", self.average),
            warm_steps=parse_whole(self.warm_steps, "warm_steps"),
            seed=_read_seed(self.seed),
        )

    def _promise(self, split: DiffusionSplit) -> Guarantee:
        known = "the number of rows is public" + (
            "" if self.rows else "; it was taken from the data, not declared"
        )
        return Guarantee(
            "add-remove",
            "one row",
            float(split.epsilon),
            float(split.delta),
            None,
            "",
            IDEALISED,
            assumes=known,
        )

    # ---- what was learnt ----

    def sample(
        self,
        rows: int,
        *,
        labels: Any = None,
        sampler: str = "ddim",
        steps: int = 40,
        guidance: float = 0.0,
        seed: int | None = None,
    ) -> tuple[Any, NDArray[Any]]:
        """Return so many synthetic rows and their labels: an array, or a table where a frame was fitted.

        Classes occur as often as their noisy counts say, or all are of `labels`, one of the classes. Both
        samplers take `steps` steps: "ddim" adds no noise on the way, "stochastic" does. `guidance` makes rows
        more typical of their class and less varied. It costs nothing, however often it is called.
        """
        from sfumato.deep.generators.samplers import DiffusionSampler

        denoiser, count = self._fitted(), parse_whole(rows, "rows")
        _require_one_of("sampler", sampler, tuple(_SAMPLERS))
        strength = float(parse_exact(guidance, "guidance"))
        if strength < 0:
            raise _refuse("guidance is 0 or more.", str(guidance), "0 or more")
        drawing = DiffusionSampler(parse_whole(steps, "steps"), _SAMPLERS[sampler], strength)
        random = np.random.default_rng(seed)
        weights = np.maximum(self.class_counts_, 1)
        places = (
            random.choice(len(weights), count, p=weights / weights.sum())
            if labels is None
            else self._form.find_label(labels, count)
        )
        number = secrets.randbits(60) if seed is None else int(random.integers(2**60))
        return self._form.write(drawing.draw(denoiser, places, number), places)

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        """The number of rows of each class, with noise."""
        self._fitted()
        return np.array(self._released["counts"], dtype=np.int64)

    def _fitted(self) -> Denoiser:
        found: Denoiser | None = getattr(self, "_denoiser", None)
        if found is None:
            raise unfitted()
        return found

    def __repr__(self) -> str:
        promised = getattr(self, "guarantee_", None)
        return "Diffusion()" if promised is None else f"Diffusion()\n{promised}"


def _require_one_of(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise _refuse(f"There is no such {name}.", str(given), " or ".join(f'"{each}"' for each in known))


def _read_draws(given: Any) -> int:
    draws = parse_whole(given, "draws")
    if draws > _MOST_DRAWS:
        raise _refuse("A row has too many draws for memory.", f"draws={draws}", f"at most {_MOST_DRAWS}")
    return draws


def _read_share(name: str, given: Any) -> float:
    found = float(parse_exact(given, name))
    if not 0 <= found < 1:
        raise _refuse(f"{name} is a share.", str(given), "from 0 to below 1")
    return found


def _read_seed(given: Any) -> int:
    seed = int(given)
    if seed < 0:
        raise UsageError("SF-N101", "seed must be 0 or more.", got=str(seed), try_="seed=0")
    return seed


def _refuse(sentence: str, got: str, allowed: str) -> UsageError:
    return UsageError("SF-E179", sentence, got=got, allowed=allowed, try_=f"{allowed}")
