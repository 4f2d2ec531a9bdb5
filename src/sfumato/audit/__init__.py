"""Audits: attempts to break our own privacy claims. They may look at every room, and no room looks at them.

`run` samples a mechanism on two neighbouring inputs and searches for an output set that is more likely on one
than its price allows. `replay` runs a whole program twice with the same noisy answers and compares what the
mechanisms were given. `question` does that to a question of a lab. `one_run` bounds ε by a single run with
many canaries. None of them proves privacy: an audit says that no violation was found, and how large a
violation it would have found.
"""

from sfumato.audit.blackbox import pair
from sfumato.audit.catalogue import CatalogueEntry, list_entries
from sfumato.audit.checks import assert_private
from sfumato.audit.entry import run
from sfumato.audit.gate import question
from sfumato.audit.neighbours import number_tables
from sfumato.audit.one_run import CanaryVerdict, draw_inclusion, one_run
from sfumato.audit.replay import Replayed, replay
from sfumato.audit.verdict import Verdict

__all__ = [
    "CanaryVerdict",
    "CatalogueEntry",
    "Replayed",
    "Verdict",
    "assert_private",
    "draw_inclusion",
    "list_entries",
    "number_tables",
    "one_run",
    "pair",
    "question",
    "replay",
    "run",
]
