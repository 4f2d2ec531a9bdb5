"""Local differential privacy: respondents add the noise, so data never leaves its owner in the clear.

Mechanisms draw from noise/sampling and are priced by events of privacy/; nothing here knows a lab or a
ledger.
"""

from sfumato.local.estimate import Estimate
from sfumato.local.response import RandomizedResponse, Repetition

__all__ = ["Estimate", "RandomizedResponse", "Repetition"]
