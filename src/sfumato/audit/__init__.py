"""Tries to break our own claims. It may look at every room, and no room looks at it.

`run` samples a mechanism on two neighbouring inputs and looks for an event that is more likely on one than
its price allows. `replay` runs a whole program twice with the same noisy answers and looks at what the
mechanisms were given. `question` does the latter to a lab's own door. None of them proves anything: a proof
says that there is no leak, an audit only that none was found, and how large a one it would have found.
"""

from sfumato.audit.blackbox import pair, run
from sfumato.audit.gate import question
from sfumato.audit.replay import Replayed, replay
from sfumato.audit.verdict import Verdict

__all__ = ["Replayed", "Verdict", "pair", "question", "replay", "run"]
