"""Local differential privacy: respondents add the noise, so data never leaves its owner in the clear.

Mechanisms draw from noise/sampling and are priced by events of privacy/; nothing here knows a lab or a
ledger.
"""

from sfumato.local.estimate import Estimate
from sfumato.local.longitudinal import AnswerMemo, RepeatedSurvey
from sfumato.local.means import MeanEstimate, MeanResponse
from sfumato.local.messages import read_client
from sfumato.local.response import RandomizedResponse, Repetition
from sfumato.local.subset import SubsetResponse

__all__ = [
    "AnswerMemo",
    "Estimate",
    "MeanEstimate",
    "MeanResponse",
    "RandomizedResponse",
    "RepeatedSurvey",
    "Repetition",
    "SubsetResponse",
    "read_client",
]
