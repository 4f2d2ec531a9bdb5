"""Privacy on the respondent's side: the data never leaves its owner in the clear."""

from sfumato.local.estimate import Estimate
from sfumato.local.response import RandomizedResponse, Repetition

__all__ = ["Estimate", "RandomizedResponse", "Repetition"]
