"""Audits: attempts to break our own privacy claims. They may look at every room, and no room looks at them.

`run` samples a mechanism on two neighbouring inputs and searches for an output set that is more likely on one
than its price allows. `replay` runs a whole program twice with the same noisy answers and compares what the
mechanisms were given. `question` does that to a question of a lab. None of them proves privacy: an audit says
that no violation was found, and how large a violation it would have found.
"""

from sfumato.audit.blackbox import pair, run
from sfumato.audit.gate import question
from sfumato.audit.replay import Replayed, replay
from sfumato.audit.verdict import Verdict

__all__ = ["Replayed", "Verdict", "pair", "question", "replay", "run"]
