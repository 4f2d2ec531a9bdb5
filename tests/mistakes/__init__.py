"""A gallery of known mistakes: small wrong copies of what libraries and papers did, each with its source.

Every one of them is caught by `sf.audit.run`.
"""

from mistakes.mistake import Mistake
from mistakes.noise import NOISE_MISTAKES
from mistakes.rows import ROW_MISTAKES
from mistakes.runs import RUN_MISTAKES
from mistakes.thresholds import THRESHOLD_MISTAKES

MISTAKES: tuple[Mistake, ...] = (*NOISE_MISTAKES, *ROW_MISTAKES, *THRESHOLD_MISTAKES, *RUN_MISTAKES)
"""All mistakes of the gallery."""

__all__ = ["MISTAKES", "Mistake"]
