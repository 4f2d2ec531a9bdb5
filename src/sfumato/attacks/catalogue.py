"""All attacks by name: what `sfumato attack` lists and runs."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from sfumato.attacks.asking_again import asking_again
from sfumato.attacks.completion import completion
from sfumato.attacks.composition import composition
from sfumato.attacks.differencing import differencing
from sfumato.attacks.green_hair import green_hair
from sfumato.attacks.linkage import linkage
from sfumato.attacks.mean_membership import mean_membership
from sfumato.attacks.model_membership import model_membership
from sfumato.attacks.named_linkage import name_linkage, voter_linkage
from sfumato.attacks.rating_linkage import rating_linkage
from sfumato.attacks.reconstruction import reconstruction
from sfumato.attacks.refusals import refusals
from sfumato.attacks.survey_averaging import survey_averaging
from sfumato.attacks.synthetic_membership import synthetic_membership
from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attacks.report import AttackReport


@dataclass(frozen=True, slots=True)
class KnownAttack:
    """An attack of the catalogue: its name in the shell, its function, and what it shows."""

    name: str
    run: Callable[..., AttackReport]
    summary: str
    dataset: str = ""
    """Data sets that it needs, or nothing if it generates its own."""


ATTACKS: Final = (
    KnownAttack("differencing", differencing, "two totals that differ by one person give that person away"),
    KnownAttack("green-hair", green_hair, "an average over a group of one is no average"),
    KnownAttack("asking-again", asking_again, "fresh noise averages away unless a ledger counts"),
    KnownAttack("refusals", refusals, "a guard who refuses what is dangerous tells what is dangerous"),
    KnownAttack("reconstruction", reconstruction, "enough counts of subsets give back everybody's bit"),
    KnownAttack("linkage", linkage, "rows without names are named by birth date, postal code and sex"),
    KnownAttack("linkage-voters", voter_linkage, "a voter list names rows of a survey", "nist_acs, linkage"),
    KnownAttack("linkage-names", name_linkage, "two lists of names with typing errors are joined", "febrl"),
    KnownAttack(
        "linkage-ratings", rating_linkage, "two films with dates single a user out", "movietweetings100k"
    ),
    KnownAttack("composition", composition, "two k-anonymous tables name the people who are in both"),
    KnownAttack("completion", completion, "a search box completes what one person typed"),
    KnownAttack("membership-means", mean_membership, "thousands of means tell who was averaged"),
    KnownAttack("membership-models", model_membership, "a model tells which rows it was fitted to (LiRA)"),
    KnownAttack("membership-synthetic", synthetic_membership, "rows near to yours tell that you were there"),
    KnownAttack("survey-averaging", survey_averaging, "coins tossed anew every day tell the truth by and by"),
)


def list_attacks() -> tuple[KnownAttack, ...]:
    """Return all attacks, in the order of the docs."""
    return ATTACKS


def run_attack(name: str, **options: Any) -> AttackReport:
    """Run the attack of this name; options are those of its function, such as epsilon."""
    known = {each.name: each for each in ATTACKS}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        raise UsageError(
            "SF-U101",
            "There is no attack of this name.",
            got=repr(name),
            known=", ".join(known),
            try_=near[0] if near else "sfumato attack, which lists them",
        )
    if "epsilon" in options:
        parse_positive(options["epsilon"], "epsilon")
    return known[name].run(**options)
