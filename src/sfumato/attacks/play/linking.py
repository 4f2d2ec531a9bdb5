"""One round of linkage: a neighbour looked up in rows without names, and the same question to a lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.linkage import unique_share
from sfumato.attacks.people import draw_people
from sfumato.attacks.play.names import NAMES
from sfumato.attacks.real_lab import list_values, open_lab
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Collection

PEOPLE = 2_000
ZIPS = 20
KNOWN: Final = {
    "zip": "postal code",
    "birth_year": "birth year",
    "birth_day": "birthday within the year",
    "sex": "sex",
}
"""What an attacker may know about a neighbour, and its name in words."""
_FIRST_YEAR: Final = 1940


@dataclass(frozen=True, slots=True)
class LinkageRound:
    """One round: what is known of a person, the rows without names that fit it, and the lab's answer."""

    epsilon: float
    target: str
    known: dict[str, int]
    """What the attacker knows: column and value."""
    truth: int
    matches: int
    """How many rows without names fit what is known."""
    sick: int
    """How many of them have a 1 as their secret."""
    alone: float
    """Share of all people who are alone with what is known of them."""
    question: str
    private: float
    """The lab's answer to the question for the number of secrets among the rows that fit."""

    @property
    def raw_guess(self) -> int | None:
        """What the rows without names tell: the secret if all that fit agree, else nothing."""
        if self.sick in (0, self.matches):
            return int(self.sick > 0)
        return None

    @property
    def private_guess(self) -> int:
        """The attacker's best guess from the lab's answer."""
        return int(self.private > self.matches / 2)

    @property
    def ceiling(self) -> float:
        """Largest chance that anyone's guess from the lab's answer is right."""
        return guess_ceiling(self.epsilon)


def play_linkage(
    *,
    known: Collection[str] = ("zip", "birth_year", "birth_day", "sex"),
    epsilon: float = 1.0,
    person: int = 0,
    seed: int = 0,
) -> LinkageRound:
    """Draw a town, look one person up in its rows without names, and ask a lab the same; return the round."""
    rng = np.random.default_rng(seed)
    drawn, secret = draw_people(PEOPLE, rng, zips=ZIPS), rng.integers(0, 2, PEOPLE)
    columns = {
        "zip": drawn["zip"],
        "birth_year": drawn["birth_date"] // 365,
        "birth_day": drawn["birth_date"] % 365,
        "sex": drawn["sex"],
    }
    used = [name for name in KNOWN if name in known]
    place = person % len(NAMES)
    about = {name: int(columns[name][place]) for name in used}
    fits = np.all([columns[name] == value for name, value in about.items()] or [np.ones(PEOPLE)], axis=0)
    where = " AND ".join(["secret = 1", *(f"{name} = {value}" for name, value in about.items())])
    question = f"SELECT COUNT(*) AS n FROM people WHERE {where}"  # noqa: S608  parsed by us
    declared = {name: list_values(int(values.max()) + 1) for name, values in columns.items()}
    rows = {**columns, "secret": secret}
    with open_lab(rows, {**declared, "secret": list_values(2)}, Budget.of(epsilon=epsilon)) as session:
        answer = session.sql(question).release(epsilon=epsilon).to_arrow()["n"][0].as_py()
    everyone = list(zip(*(columns[name].tolist() for name in used), strict=True)) if used else [()] * PEOPLE
    return LinkageRound(
        epsilon,
        NAMES[place],
        about,
        int(secret[place]),
        int(fits.sum()),
        int(secret[fits.astype(bool)].sum()),
        unique_share(everyone),
        question,
        float(answer),
    )


def name_year(code: int) -> int:
    """Return the calendar year of a birth year's code."""
    return _FIRST_YEAR + code
