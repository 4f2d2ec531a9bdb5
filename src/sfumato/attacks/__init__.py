"""Attacks: what goes wrong with raw answers, and how far the same attacker gets with private ones.

Each attack is a function that returns an `AttackReport`: how often the attacker is right against each way
of answering, beside the ceiling that the guarantee sets. Private answers come from a real lab where the
attack is on questions. Only the command line and the server import this room. `play` has single rounds for
pages.
"""

from sfumato.attacks.asking_again import asking_again
from sfumato.attacks.catalogue import KnownAttack, list_attacks, run_attack
from sfumato.attacks.ceilings import guess_ceiling, hit_ceiling, value_ceiling
from sfumato.attacks.completion import completion
from sfumato.attacks.composition import composition, group_anonymously
from sfumato.attacks.differencing import differencing
from sfumato.attacks.green_hair import green_hair
from sfumato.attacks.linkage import link_unique, linkage, unique_share
from sfumato.attacks.mean_membership import mean_membership
from sfumato.attacks.model_membership import MembershipScores, infer_membership, model_membership
from sfumato.attacks.named_linkage import name_linkage, voter_linkage
from sfumato.attacks.rating_linkage import rating_linkage
from sfumato.attacks.reconstruction import reconstruction, solve_bits
from sfumato.attacks.refusals import refusals
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.attacks.survey_averaging import survey_averaging
from sfumato.attacks.synthetic_membership import synthetic_membership

__all__ = [
    "AttackReport",
    "KnownAttack",
    "MembershipScores",
    "Outcome",
    "asking_again",
    "completion",
    "composition",
    "differencing",
    "green_hair",
    "group_anonymously",
    "guess_ceiling",
    "hit_ceiling",
    "infer_membership",
    "link_unique",
    "linkage",
    "list_attacks",
    "mean_membership",
    "model_membership",
    "name_linkage",
    "rating_linkage",
    "reconstruction",
    "refusals",
    "run_attack",
    "solve_bits",
    "survey_averaging",
    "synthetic_membership",
    "unique_share",
    "value_ceiling",
    "voter_linkage",
]
