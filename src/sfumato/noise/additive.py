"""What Laplace and Gaussian noise have in common, for those who add noise to sums and report its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from sfumato.noise.moments import NoiseMoments
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number


class Norms(Protocol):
    """The largest norms by which neighbours differ. Each noise is priced by the norm of its own."""

    @property
    def l1(self) -> int: ...

    @property
    def l2(self) -> Fraction: ...


class Noise(Protocol):
    """Independent integer noise of mean 0, added to each number of a vector."""

    @property
    def spread(self) -> Fraction:
        """The parameter of the law, in grid steps: the scale of Laplace noise, the σ of Gaussian noise."""

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of the integer that is added."""

    def event_for(self, sensitivity: Norms) -> Event:
        """Return the price of adding this noise to a vector of this sensitivity."""

    def release_for(self, exact: IntArray, sensitivity: Norms) -> IntArray:
        """Return the integers plus fresh noise. Auditors see the sensitivity as it was priced."""

    def expected_error(self) -> float:
        """Return the mean of |noise|."""

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|noise| ≤ t) ≥ confidence."""

    def quantiles(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers that the noise stays at or below with these chances, to double precision."""
