"""Linkage of ratings: a few films and the days on which somebody rated them single out one user.

Narayanan and Shmatikov (*Robust de-anonymization of large sparse datasets*, 2008) did so to Netflix.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.datasets import read_ratings
from sfumato.attacks.real_lab import open_lab
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import one_of
from sfumato.errors.numbers import format_number, format_share
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rating = tuple[int, int, int]
    Known = tuple[int, int]

MAX_ROWS = 20
"""Ratings of a user that the lab counts."""
SLACK = (0, 3, 14)
"""Days by which the attacker may be wrong about a date."""


def rating_linkage(
    *, epsilon: float = 1.0, pairs: tuple[int, ...] = (1, 2, 3, 4), users: int = 1000, seed: int = 0
) -> AttackReport:
    """Find users by a few (film, date) pairs, and read whether they rated one more film.

    The ratings are MovieTweetings'. One rating of every target is kept or taken out by a coin, and is what
    the attacker wants to know. A lab with the same rows counts the ratings of each film.
    """
    rng = np.random.default_rng(seed)
    ratings = read_ratings()
    chosen = _choose_targets(ratings, max(pairs) + 1, users, rng)
    kept = rng.integers(0, 2, len(chosen))
    hidden = {(user, own[0][0]) for (user, own), coin in zip(chosen.items(), kept, strict=True) if not coin}
    rows = [rating for rating in ratings if rating[:2] not in hidden]
    index = RatingIndex(rows)
    counts = _count_films(rows, ratings, epsilon)
    guessed = [
        _noisy_guess(index, counts, own[0][0], bool(coin))
        for own, coin in zip(chosen.values(), kept, strict=True)
    ]
    outcomes = [
        Outcome(
            f"rows, {count} film{'s' * (count > 1)} with dates known",
            sum(
                index.tell_rated(own[1 : count + 1], own[0][0]) == bool(coin)
                for own, coin in zip(chosen.values(), kept, strict=True)
            ),
            len(chosen),
        )
        for count in pairs
    ]
    return AttackReport(
        "linkage-ratings",
        "Whether users rated one more film, from a few that are known.",
        "ratings told right",
        0.5,
        (
            *outcomes,
            Outcome(
                f"sfumato, noisy counts of all films, ε = {format_number(epsilon)}",
                int(np.sum(np.array(guessed) == (kept == 1))),
                len(chosen),
                guess_ceiling(epsilon),
            ),
        ),
        tuple(_identified(index, chosen, pairs, slack) for slack in SLACK),
    )


class RatingIndex:
    """Who rated which film on which day."""

    def __init__(self, ratings: Sequence[Rating]) -> None:
        self._days: dict[int, dict[int, int]] = defaultdict(dict)
        for user, film, day in ratings:
            self._days[film][user] = day

    def list_users(self, known: Sequence[Known], slack: int = 0) -> set[int]:
        """Return everyone who rated all these films, each within so many days of the date."""
        (first, date), *others = known
        found = {user for user, rated in self._days[first].items() if abs(rated - date) <= slack}
        for film, day in others:
            days = self._days[film]
            found = {user for user in found if user in days and abs(days[user] - day) <= slack}
        return found

    def tell_rated(self, known: Sequence[Known], film: int) -> bool:
        """Guess whether the user with these ratings rated a film: as most of those who fit did."""
        fitting = self.list_users(known)
        return 2 * sum(user in self._days[film] for user in fitting) > len(fitting)

    def count_users(self, film: int) -> int:
        """Return how many rated a film."""
        return len(self._days[film])


def _choose_targets(
    ratings: Sequence[Rating], fewest: int, users: int, rng: np.random.Generator
) -> dict[int, list[Known]]:
    """Return ratings in random order of users who have enough of them, the first to be hidden."""
    own: dict[int, list[Known]] = defaultdict(list)
    for user, film, day in ratings:
        own[user].append((film, day))
    able = [user for user, known in own.items() if len(known) >= fewest]
    chosen = rng.permutation(able)[:users]
    return {int(user): [own[user][at] for at in rng.permutation(len(own[user]))] for user in chosen}


def _identified(
    index: RatingIndex, chosen: dict[int, list[Known]], pairs: tuple[int, ...], slack: int
) -> str:
    shares = (
        np.mean([index.list_users(own[1 : count + 1], slack) == {user} for user, own in chosen.items()])
        for count in pairs
    )
    said = ", ".join(f"{count}: {format_share(share, 0)}" for count, share in zip(pairs, shares, strict=True))
    return f"Users singled out by so many films with dates known to {slack} days: {said}."


def _count_films(rows: Sequence[Rating], ratings: Sequence[Rating], epsilon: float) -> dict[int, float]:
    """Ask a lab for the number of ratings of every film; the list of films is public."""
    films = sorted({film for _, film, _ in ratings})
    table = {"user": [row[0] for row in rows], "film": [row[1] for row in rows]}
    unit, budget = Unit("user", max_rows=MAX_ROWS), Budget.of(epsilon=epsilon)
    with open_lab(table, {"film": one_of(*films, missing=films[0])}, budget, unit) as session:
        question = session.sql("SELECT film, COUNT(*) AS n FROM people GROUP BY film")
        answer = question.release(epsilon=epsilon, include_empty=True).to_arrow()
    return dict(zip(answer["film"].to_numpy().tolist(), answer["n"].to_numpy().tolist(), strict=True))


def _noisy_guess(index: RatingIndex, counts: dict[int, float], film: int, coin: bool) -> bool:
    """Compare a noisy count with the number of all others who rated the film, which the attacker knows."""
    others = index.count_users(film) - coin
    return counts[film] > others + 0.5
