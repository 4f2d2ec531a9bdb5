"""`Moments`: synthetic labelled images or vectors from noisy means and covariances of each class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.privacy.exact import parse_whole
from sfumato.synth.images.class_gaussians import ClassGaussians
from sfumato.synth.images.class_moments import MomentsKernel
from sfumato.synth.images.gaussian_budget import multiplier_of
from sfumato.synth.images.labelled_generator import LabelledGenerator
from sfumato.synth.images.labelled_rows import LabelledRows
from sfumato.synth.images.public_basis import PublicBasis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.oracle.guarantee import Guarantee
    from sfumato.synth.images.labelled_generator import SampleWriter


class Moments(LabelledGenerator[MomentsKernel]):
    """Synthetic labelled images or vectors: a Gaussian for each class, in a public basis.

    Images, as (rows, height, width) or with colours as a further axis, are described by their lowest cosines,
    vectors by their numbers as they are; `shape` says that flat rows are images. `basis` gives other
    directions, such as the components of a PCA of public data. How many coefficients vary together follows
    from the noise, unless `size` says so.

    `bounds` are the least and the greatest value of every number, `classes` lists all labels.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove or as the table says.
    Costs    : (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/synth-images.md#moments
    Assumes  : bounds, classes, basis and size are public, and were not chosen by the rows.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = (
        *("epsilon", "delta", "rho", "bounds", "classes", "basis", "shape", "size", "budget"),
    )
    takes_lists: ClassVar[bool] = False
    _gaussians: ClassGaussians

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        classes: Any = None,
        basis: Any = None,
        shape: Any = None,
        size: Any = None,
        budget: Any = None,
    ) -> None:
        super().__init__(epsilon, delta, rho, bounds, classes, budget)
        self.basis, self.shape, self.size = basis, shape, size

    def fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Charge, then learn from own rows and their labels; one row is one unit."""
        given = LabelledRows.of(X, y, self.bounds, self.classes if classes is None else classes)
        basis = self.make_basis(given.shape)
        kernel = self.make_kernel(basis, (ONE,) * basis.width, len(given.classes))
        promised = self._pay_for_own(kernel.event())
        with np.errstate(all="ignore"):
            released = kernel.measure(basis.project(len(given.rows), given.read_integers), given.labels)
        self.keep_release(kernel, released, given.sample_form(), promised)
        return self

    # ---- what both ways share ----

    def make_basis(self, shape: tuple[int, ...]) -> PublicBasis:
        """Return the basis for rows of a shape, or of the one that was declared for flat rows."""
        declared = shape if self.shape is None else tuple(parse_whole(each, "shape") for each in self.shape)
        if math.prod(declared) != math.prod(shape):
            raise UsageError(
                "SF-E176",
                "The shape does not hold as many numbers as a row.",
                got=f"{math.prod(shape)} numbers",
                try_="shape=(8, 8) for rows of 64 numbers",
            )
        return PublicBasis.of(declared, self.basis)

    def make_table_kernel(
        self, bounds: tuple[int, ...], sizes: tuple[int, ...], classes: int, replaced: bool
    ) -> MomentsKernel:
        """Return the mechanism for rows of a table that are numbers, from public facts."""
        return self.make_kernel(self.make_basis((len(bounds),)), bounds, classes, replaced)

    def make_kernel(
        self, basis: PublicBasis, bounds: tuple[int, ...], classes: int, replaced: bool = False
    ) -> MomentsKernel:
        """Return the mechanism for rows in this basis, from public facts."""
        size = 0 if self.size is None else min(parse_whole(self.size, "size"), basis.size)
        kernel = MomentsKernel(basis, bounds, classes, multiplier_of(self.fit_budget()), replaced, size)
        kernel.require_drawable()
        return kernel

    def keep_release(
        self,
        kernel: MomentsKernel,
        written: Mapping[str, Any],
        form: SampleWriter,
        promised: Guarantee,
    ) -> None:
        """Keep what was released, from which everything else is computed."""
        self._keep_promise(kernel, promised)
        self._form = form
        self._sampler = self._gaussians = ClassGaussians(kernel, written)

    # ---- what was learnt ----

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        """The number of rows of each class, with noise."""
        self._require_fitted()
        return self._gaussians.counts

    @property
    def size_(self) -> int:
        """The number of coefficients that vary together."""
        self._require_fitted()
        return self._gaussians.size
