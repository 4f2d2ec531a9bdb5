"""Synthetic data: tables that have about the marginals of sensitive ones, images and vectors, for one price.

Rows are read by a mechanism that the curator charges for (kernel.py); models and tables are post-processing.
Start at marginals.py, or for images and vectors at images/moments.py; quality/ reports on both.
"""

from sfumato.synth.images.diffusion import Diffusion
from sfumato.synth.images.merf import MERF
from sfumato.synth.images.moments import Moments
from sfumato.synth.marginals import Marginals
from sfumato.synth.quality.report import QualityReport
from sfumato.synth.quality.reporting import report_quality
from sfumato.synth.twin import Twin

__all__ = ["MERF", "Diffusion", "Marginals", "Moments", "QualityReport", "Twin", "report_quality"]
