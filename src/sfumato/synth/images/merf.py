"""`MERF`: rows of a generator with about the same mean embedding (Harder, Adamczewski and Park, 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.privacy.exact import parse_positive, parse_whole
from sfumato.synth.images.embedded_classes import EmbeddedClasses, ReleasedEmbedding
from sfumato.synth.images.gaussian_budget import multiplier_of
from sfumato.synth.images.labelled_generator import LabelledGenerator
from sfumato.synth.images.labelled_rows import LabelledRows
from sfumato.synth.images.mean_embedding import MOST_DIRECTIONS, MOST_NUMBERS, EmbeddingKernel
from sfumato.synth.images.mixed_rows import MixedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.guarantee import Guarantee
    from sfumato.synth.images.labelled_generator import SampleWriter


_SHORTEST = Fraction(1, 2**20)
"""The least length scale: rows on the public grid are no nearer to each other than 2⁻¹²."""
_MOST_PHASES = 2**26
"""The most numbers that one array has in training."""


class MERF(LabelledGenerator[EmbeddingKernel]):
    """Synthetic labelled images, vectors or mixed tables from a noisy mean of random features.

    The mean embedding of every class is released once; a generator is then trained until its rows have about
    the same: a mixture of `components` Gaussians for each class, in `steps` steps. It needs torch.

    For arrays `bounds` are the least and the greatest value; for frames they declare every column, by bounds
    or by a list of texts, and columns that are listed are matched value by value. Behind the curator the
    catalog declares them.

    `waves` random directions make twice as many features, and `seed` chooses them; without a number there are
    twenty for every number of a row, from 500 to 5000. `length` is the length
    scale of the kernel, in halves of the bounds; without one it is bought, for 4 % of the budget. Samples
    have classes as often as was released of them, or with `balanced` all alike.

    Privacy
    -------
    Protects : one row (own rows) or one unit (behind the curator), add/remove or as the table says.
    Costs    : (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/synth-images.md#mean-embedding
    Assumes  : bounds, classes, length and seed are public, and were not chosen by the rows.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = (
        *("epsilon", "delta", "rho", "bounds", "classes", "length", "waves", "components", "steps"),
        *("balanced", "seed", "budget"),
    )
    takes_lists: ClassVar[bool] = True
    _released: ReleasedEmbedding

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        classes: Any = None,
        length: Any = None,
        waves: int | None = None,
        components: int = 1,
        steps: int = 600,
        balanced: bool = False,
        seed: int = 0,
        budget: Any = None,
    ) -> None:
        super().__init__(epsilon, delta, rho, bounds, classes, budget)
        self.length, self.waves, self.components, self.steps = length, waves, components, steps
        self.balanced, self.seed = balanced, seed

    def fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Charge, release the mean embedding of own rows, and train a generator on it."""
        listed = self.classes if classes is None else classes
        mixed = isinstance(self.bounds, Mapping)
        given = (
            MixedRows.of(X, y, self.bounds, listed) if mixed else LabelledRows.of(X, y, self.bounds, listed)
        )
        places, sizes = (given.places, given.sizes) if isinstance(given, MixedRows) else ((), ())
        kernel = self.make_table_kernel((ONE,) * given.numbers, sizes, len(given.classes), False)
        promised = self._pay_for_own(kernel.event())
        with np.errstate(all="ignore"):
            written = kernel.measure(given.read_integers, places, given.labels)
        self.keep_release(kernel, written, given.sample_form(), promised)
        return self

    # ---- what both ways share ----

    def make_table_kernel(
        self, bounds: tuple[int, ...], sizes: tuple[int, ...], classes: int, replaced: bool
    ) -> EmbeddingKernel:
        """Return the mechanism for such rows, from public facts; what cannot be done is refused here."""
        # Without torch nothing could be trained, so nothing is charged.
        import sfumato.deep.generators.embedding  # noqa: F401

        if len(bounds) > MOST_NUMBERS:
            got, allowed = str(len(bounds)), f"at most {MOST_NUMBERS}"
            raise UsageError("SF-E230", "Rows hold too many numbers.", got=got, allowed=allowed)
        length, waves, seed = self._read_length(), self._choose_waves(len(bounds)), int(self.seed)
        parse_whole(self.steps, "steps")
        self._require_few_components(classes * max(waves, len(bounds)))
        if seed < 0:
            raise UsageError("SF-N101", "seed must be 0 or more.", got=str(seed), try_="seed=0")
        kernel = EmbeddingKernel(
            bounds, sizes, classes, multiplier_of(self.fit_budget()), waves, seed, length, replaced
        )
        kernel.require_drawable()
        return kernel

    def _read_length(self) -> Fraction | None:
        """Return the length scale that was declared, if one was."""
        length = None if self.length is None else parse_positive(self.length, "length")
        if length is not None and length < _SHORTEST:
            allowed = f"at least {format_number(float(_SHORTEST), 3)} of half the bounds"
            raise UsageError(
                "SF-N101", "The length scale is too short.", got=str(self.length), allowed=allowed
            )
        return length

    def _require_few_components(self, each: int) -> None:
        """Refuse mixtures whose training takes too much memory, of which a component takes so much."""
        components = parse_whole(self.components, "components")
        if components > max(1, _MOST_PHASES // each):
            most = max(1, _MOST_PHASES // each)
            raise UsageError(
                "SF-E230",
                "There are too many components for memory.",
                got=str(components),
                allowed=f"at most {most}",
                try_=f"components={min(most, 4)}",
            )

    def _choose_waves(self, numbers: int) -> int:
        """Return the number of random directions for rows of so many numbers."""
        if self.waves is None:
            return max(50, min(5000, max(500, 20 * numbers), MOST_DIRECTIONS // 4 // max(1, numbers)))
        waves = parse_whole(self.waves, "waves")
        if waves * max(numbers, 500) > MOST_DIRECTIONS:
            most = MOST_DIRECTIONS // max(numbers, 500)
            raise UsageError(
                "SF-E230",
                "There are too many waves for memory.",
                got=f"{waves} for {numbers} numbers",
                allowed=f"at most {most}",
                try_=f"waves={min(most, 5000)}",
            )
        return waves

    def keep_release(
        self, kernel: EmbeddingKernel, written: Mapping[str, Any], form: SampleWriter, promised: Guarantee
    ) -> None:
        """Keep what was released, and train a generator on it."""
        released = ReleasedEmbedding(kernel, written)
        components, steps = int(self.components), int(self.steps)
        with np.errstate(all="ignore"):
            self._sampler = EmbeddedClasses.train(
                released, form.shape, components, steps, bool(self.balanced)
            )
        self._keep_promise(kernel, promised)
        self._form, self._released = form, released

    # ---- what was learnt ----

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        """The number of rows of each class, with noise."""
        self._require_fitted()
        return self._released.counts

    @property
    def length_(self) -> float | None:
        """The length scale, declared or bought, in halves of the bounds."""
        self._require_fitted()
        return self._released.length
