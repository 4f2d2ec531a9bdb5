"""Attacks to play, one round at a time: generated people, a desk that answers exactly, and a real lab.

Each function returns a frozen round with all that a page shows of it: the questions, both desks' answers, the
attacker's guesses and the truth. Rounds take well under a second; nobody in them is real.
"""

from sfumato.attacks.play.linking import KNOWN, LinkageRound, play_linkage
from sfumato.attacks.play.repeating import AskedAgain, RepetitionRound, play_repetition
from sfumato.attacks.play.subtracting import DifferencingRound, play_differencing, reveal_differencing

__all__ = [
    "KNOWN",
    "AskedAgain",
    "DifferencingRound",
    "LinkageRound",
    "RepetitionRound",
    "play_differencing",
    "play_linkage",
    "play_repetition",
    "reveal_differencing",
]
