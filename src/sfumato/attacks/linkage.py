"""Linkage: rows without names are named by what else is in them, such as a birth date and a postal code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.people import ALONE, draw_people, draw_town
from sfumato.attacks.real_lab import list_values, open_lab
from sfumato.attacks.report import AttackReport, Outcome, share_text
from sfumato.errors.numbers import format_number, format_share
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    Key = tuple[Hashable, ...]
    Ints = NDArray[np.int64]


def linkage(*, people: int = 10_000, epsilon: float = 1.0, seed: int = 0) -> AttackReport:
    """Name rows that have no names by postal code, birth date and sex, and read their secret bit.

    People are generated. A lab with the same rows is asked for the sum of bits in each cell of postal code,
    birth year and sex; the attacker guesses for those who are alone in their cell.
    """
    rng = np.random.default_rng(seed)
    drawn, secret = draw_people(people, rng), rng.integers(0, 2, people)
    year = drawn["birth_date"] // 365
    dated = list(zip(drawn["zip"].tolist(), drawn["birth_date"].tolist(), drawn["sex"].tolist(), strict=True))
    cells = {"zip": drawn["zip"], "year": year, "sex": drawn["sex"]}
    yearly = list(zip(*(column.tolist() for column in cells.values()), strict=True))
    alone, guess = guess_alone(cells, secret, epsilon)
    return AttackReport(
        "linkage",
        "The secret of people whose postal code, birth date and sex are known.",
        "bits right",
        0.5,
        (
            _read_cells("rows with postal code, birth date and sex", dated, secret),
            _read_cells("rows with postal code, birth year and sex", yearly, secret),
            Outcome(
                f"sfumato, a noisy sum for each cell, ε = {format_number(epsilon)}",
                int(np.sum(guess == secret[alone])),
                len(alone),
                guess_ceiling(epsilon),
            ),
        ),
        (
            f"{share_text(unique_share(dated))} are alone with their postal code, birth date and sex.",
            f"{share_text(unique_share(yearly))} are alone with their postal code, birth year and sex.",
            *_beside_published(rng),
        ),
    )


def unique_share(rows: Sequence[Hashable]) -> float:
    """Return the share of rows that no other row equals."""
    return len(find_alone(rows)) / len(rows) if rows else 0.0


def find_alone(rows: Sequence[Hashable]) -> Ints:
    """Return the places of rows that no other row equals."""
    count = Counter(rows)
    return np.array([at for at, row in enumerate(rows) if count[row] == 1], dtype=np.int64)


def link_unique(rows: Sequence[Hashable], others: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return places in both lists of what occurs exactly once in each of them."""
    places = {others[at]: int(at) for at in find_alone(others)}
    return [(int(at), places[rows[at]]) for at in find_alone(rows) if rows[at] in places]


def guess_alone(cells: Mapping[str, Ints], secret: Ints, epsilon: float) -> tuple[Ints, Ints]:
    """Ask a lab for the sum of bits in every cell; return who is alone in one, and guesses of their bits."""
    names = ", ".join(cells)
    declared: dict[str, Any] = {name: list_values(int(column.max()) + 1) for name, column in cells.items()}
    rows = {**cells, "secret": secret}
    with open_lab(rows, {**declared, "secret": list_values(2)}, Budget.of(epsilon=epsilon)) as session:
        sql = f"SELECT {names}, SUM(secret) AS n FROM people GROUP BY {names}"  # noqa: S608  parsed by us
        answer = session.sql(sql).release(epsilon=epsilon, include_empty=True).to_arrow()
    grid = np.zeros([int(column.max()) + 1 for column in cells.values()])
    grid[tuple(answer[name].to_numpy() for name in cells)] = answer["n"].to_numpy()
    alone = find_alone(list(zip(*(column.tolist() for column in cells.values()), strict=True)))
    return alone, (grid[tuple(column[alone] for column in cells.values())] > 0.5).astype(np.int64)


def _read_cells(against: str, rows: Sequence[Key], secret: Ints) -> Outcome:
    """Guess everybody's bit as that of most rows that look alike; who is alone is read."""
    ones: Counter[Key] = Counter(row for row, bit in zip(rows, secret, strict=True) if bit)
    size = Counter(rows)
    guess = np.array([2 * ones[row] > size[row] for row in rows])
    return Outcome(against, int(np.sum(guess == (secret == 1))), len(rows))


def _beside_published(rng: np.random.Generator) -> list[str]:
    town = draw_town(rng)
    said = []
    for words, columns, published in ALONE:
        # One number for each combination: no code has more than five digits.
        codes = sum(town[name] * 100_000**at for at, name in enumerate(columns))
        alone = np.sum(np.unique(codes, return_counts=True)[1] == 1) / len(town["sex"])
        said.append(
            f"Alone by {words}: {format_share(alone, 0)} here, {format_share(published, 0)} in Cambridge."
        )
    return [
        f"A generated town of {len(town['sex']):,} voters, beside Cambridge's list (Sweeney, 1997):",
        *said,
    ]
