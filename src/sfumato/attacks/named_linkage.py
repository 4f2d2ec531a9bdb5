"""Linkage with lists of real life: a survey with a voter list, and two lists of names with typing errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.datasets import read_csv
from sfumato.attacks.linkage import find_alone, guess_alone, link_unique
from sfumato.attacks.real_lab import open_lab
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import text
from sfumato.errors.numbers import format_number, format_share
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

YEAR = 2019
"""Year of the survey, from which a birth year follows from an age."""
KNOWN = ("birth year", "sex", "area", "race")
NAMED = (
    ("given_name", "surname", "date_of_birth"),
    ("surname", "date_of_birth"),
    ("given_name", "date_of_birth"),
    ("given_name", "surname", "postcode"),
    ("date_of_birth", "postcode"),
)
"""What two lists are compared by, one after the other: a typing error spares some of these."""
DELTA = 1e-6


def voter_linkage(*, epsilon: float = 1.0, seed: int = 0) -> AttackReport:
    """Name rows of a survey by a voter list, and read what a named person said.

    The survey is the American Community Survey's excerpt of Massachusetts 2019, and the voters are made up
    to fit. Everyone's answer is a coin, so that nothing can be known of it from others. A lab with the
    same rows is asked for the sum of coins in each cell of age, sex, area and race.
    """
    survey, voters = read_csv("nist_acs/ma2019.csv.gz"), read_csv("linkage/synthetic_voters_ma2019.csv.gz")
    rows = [
        (str(YEAR - int(age)), sex, area, race)
        for age, sex, area, race in zip(
            survey["AGEP"], survey["SEX"], survey["PUMA"], survey["RAC1P"], strict=True
        )
    ]
    listed = list(zip(voters["birth_year"], voters["sex"], voters["puma"], voters["race"], strict=True))
    pairs = link_unique(listed, rows)
    true = _read_key(voters["voter_id"])
    named = sum(true[voter] == row for voter, row in pairs)
    secret = np.random.default_rng(seed).integers(0, 2, len(rows))
    cells = {name: _code(column) for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)}
    alone, guess = guess_alone(cells, secret, epsilon)
    told = np.isin(alone, [row for _, row in pairs])
    read = sum(secret[row] == secret[true[voter]] for voter, row in pairs)
    return AttackReport(
        "linkage-voters",
        f"What voters said in a survey, by {', '.join(KNOWN)}.",
        "answers right",
        0.5,
        (
            Outcome("rows of the survey", int(read), len(pairs)),
            Outcome(
                f"sfumato, a noisy sum for each cell, ε = {format_number(epsilon)}",
                int(np.sum((guess == secret[alone])[told])),
                int(told.sum()),
                guess_ceiling(epsilon),
            ),
        ),
        (f"{len(pairs)} of {len(listed):,} voters match one row alone; {named} of these are the right row.",),
    )


def name_linkage(*, epsilon: float = 1.0) -> AttackReport:
    """Find the same person in two lists of names with typing errors, FEBRL's fourth data set.

    A lab with one of the lists is asked for the groups of names and birth dates, which it discovers
    privately: a group of one person shows with a chance of at most δ.
    """
    clean, dirty = read_csv("febrl/dataset4a.csv.gz"), read_csv("febrl/dataset4b.csv.gz")
    numbers = [[each.split("-")[1] for each in part["rec_id"]] for part in (clean, dirty)]
    passes = [
        link_unique(_complete_rows(clean, "clean", columns), _complete_rows(dirty, "dirty", columns))
        for columns in NAMED
    ]
    # A later pass adds whom no earlier one found.
    together = dict(pair for pairs in reversed(passes) for pair in pairs)

    def score(against: str, pairs: dict[int, int]) -> Outcome:
        right = sum(numbers[0][one] == numbers[1][other] for one, other in pairs.items())
        return Outcome(against, right, len(numbers[0]))

    full = [" ".join(map(str, row)) for row in _complete_rows(clean, "clean", NAMED[0])]
    shown, alone = _discover_names(full, epsilon), find_alone(full)
    found = score("lists with names, birth date and postcode", together)
    alone_found = [
        f"{', '.join(columns).replace('_', ' ')} {format_share(score('', dict(pairs)).success, 0)}"
        for columns, pairs in zip(NAMED, passes, strict=True)
    ]
    return AttackReport(
        "linkage-names",
        "The same person in two lists of names with typing errors.",
        "people found",
        0.0,
        (
            score("lists with names and birth date", dict(passes[0])),
            found,
            Outcome(
                f"sfumato, groups of names, ε = {format_number(epsilon)}, δ = {format_number(DELTA)}",
                sum(full[at] in shown for at in alone),
                len(alone),
                DELTA,
            ),
        ),
        (
            f"{len(together) - found.hits} of {len(together):,} matches are wrong.",
            f"Found by one comparison alone: {'; '.join(alone_found)}.",
        ),
    )


_COLUMNS = ("year", "sex", "area", "race")


def _read_key(voters: Sequence[str]) -> list[int]:
    key = read_csv("linkage/synthetic_voters_ma2019_key.csv.gz")
    places = dict(zip(key["voter_id"], map(int, key["acs_row"]), strict=True))
    return [places[voter] for voter in voters]


def _code(column: Sequence[str]) -> Ints:
    return np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)


def _complete_rows(part: dict[str, list[str]], name: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Return keys; whoever lacks a part of theirs gets a place in the list, which nobody matches."""
    rows = zip(*(part[column] for column in columns), strict=True)
    return [row if all(row) else (name, at) for at, row in enumerate(rows)]


def _discover_names(names: Sequence[str], epsilon: float) -> set[str]:
    budget = Budget.of(epsilon=epsilon, delta=DELTA * 4)
    with open_lab({"name": names}, {"name": text()}, budget) as session:
        question = session.sql("SELECT name, COUNT(*) AS n FROM people GROUP BY name")
        found = question.release(epsilon=epsilon, delta=DELTA).to_arrow()
    return {str(name) for name in found["name"].to_pylist()}
