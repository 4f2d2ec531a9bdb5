"""A gallery of known mistakes: small wrong copies of what libraries and papers did, each with its source.

Every one of them is caught by `sf.audit.run`; none of them is used by anything else.
"""

from sfumato.audit.gallery.mistake import Mistake
from sfumato.audit.gallery.noise import NOISE_MISTAKES
from sfumato.audit.gallery.rows import ROW_MISTAKES
from sfumato.audit.gallery.runs import RUN_MISTAKES
from sfumato.audit.gallery.thresholds import THRESHOLD_MISTAKES

MISTAKES: tuple[Mistake, ...] = (*NOISE_MISTAKES, *ROW_MISTAKES, *THRESHOLD_MISTAKES, *RUN_MISTAKES)
"""All mistakes of the gallery."""

__all__ = ["MISTAKES", "Mistake"]
