"""What generators of labelled rows share: one Gaussian price for a fit, and samples that cost nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from sfumato.oracle.fit_tally import FitTally
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.row_kernels import RowKernel
from sfumato.privacy.exact import parse_whole
from sfumato.synth.images.gaussian_budget import read_gaussian_budget, unfitted
from sfumato.synth.own_fits import pay_for_own_fit
from sfumato.synth.quote import SynthesisQuote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.privacy.events import Event

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


class GeneratorKernel(RowKernel, Protocol):
    """A mechanism that releases what a generator is made of."""

    def list_parts(self) -> list[tuple[str, Fraction, str]]:
        """Return what the budget is spent on: a name, its share, and what that buys."""


Kernel = TypeVar("Kernel", bound=GeneratorKernel)


class RowSampler(Protocol):
    """What was learnt: how often classes occur, and rows of them."""

    @property
    def weights(self) -> Floats:
        """The share of each class."""

    def draw_of(self, labels: Ints, random: np.random.Generator) -> tuple[Floats, Sequence[Ints]]:
        """Return numbers from −1 to 1 and places of listed values, a row for each of these classes."""


class SampleWriter(Protocol):
    """How samples look."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a row."""

    def find_label(self, label: Any, rows: int) -> Ints:
        """Return the place of one class, so many times."""

    def write_drawn(self, numbers: Floats, places: Sequence[Ints], labels: Ints) -> tuple[Any, NDArray[Any]]:
        """Return rows within their bounds, and the classes of labels."""


class LabelledGenerator(ABC, Generic[Kernel]):
    """A generator of labelled rows: it is fitted once for a price, and then sampled as often as one likes."""

    PARAMETERS: ClassVar[tuple[str, ...]]
    takes_lists: ClassVar[bool]
    """Whether columns may be listed, and not numbers alone."""
    guarantee_: Guarantee
    quote_: SynthesisQuote
    """How the budget was spent."""
    _sampler: RowSampler | None = None
    _form: SampleWriter

    def __init__(self, epsilon: Any, delta: Any, rho: Any, bounds: Any, classes: Any, budget: Any) -> None:
        self.epsilon, self.delta, self.rho = epsilon, delta, rho
        self.bounds, self.classes, self.budget = bounds, classes, budget
        self._fits = FitTally()

    @abstractmethod
    def make_table_kernel(
        self, bounds: tuple[int, ...], sizes: tuple[int, ...], classes: int, replaced: bool
    ) -> Kernel:
        """Return the mechanism for rows of a table, from public facts; what cannot be done is refused here.

        `bounds` are the largest integers of numbers, `sizes` how many values each listed column has.
        """

    @abstractmethod
    def keep_release(
        self, kernel: Kernel, written: Mapping[str, Any], form: SampleWriter, promised: Guarantee
    ) -> None:
        """Keep what was released, from which everything else is computed."""

    @property
    @abstractmethod
    def class_counts_(self) -> Ints:
        """The number of rows of each class, with noise."""

    def _keep_promise(self, kernel: Kernel, promised: Guarantee) -> None:
        self.guarantee_ = promised
        self.quote_ = SynthesisQuote.of(promised.cost_in_words, kernel.list_parts())

    def copy_parameters(self) -> Self:
        """Return an object with the same parameters, and no method that was set on this one."""
        return type(self)(**{name: getattr(self, name) for name in self.PARAMETERS})

    def fit_budget(self) -> FitBudget:
        """Return what the whole fit may cost."""
        return read_gaussian_budget(self.epsilon, self.delta, self.rho, type(self).__name__)

    def _pay_for_own(self, event: Event) -> Guarantee:
        """Charge for a fit on own rows, or count it, before rows are read."""
        budget, about = self.fit_budget(), f"fit {type(self).__name__}"
        others = pay_for_own_fit(self.budget, self._fits, event, budget.delta, about)
        return replace(Guarantee.of(budget), others=others)

    def sample(self, rows: int, *, labels: Any = None, seed: int | None = None) -> tuple[Any, NDArray[Any]]:
        """Return so many synthetic rows and their labels, within the declared bounds.

        Classes occur as often as their noisy counts say, or all are of `labels`, one of the classes. The same
        `seed` draws the same rows. It costs nothing, however often it is called.
        """
        sampler, count, random = (
            self._require_fitted(),
            parse_whole(rows, "rows"),
            np.random.default_rng(seed),
        )
        if labels is None:
            wanted = random.choice(len(sampler.weights), count, p=sampler.weights)
        else:
            wanted = self._form.find_label(labels, count)
        return self._form.write_drawn(*sampler.draw_of(wanted, random), wanted)

    def _require_fitted(self) -> RowSampler:
        if self._sampler is None:
            raise unfitted()
        return self._sampler

    def __repr__(self) -> str:
        promised = getattr(self, "guarantee_", None)
        text = f"{type(self).__name__}()"
        return text if promised is None else f"{text}\n{promised}"
