"""What an attack found: how often it was right on raw answers and on private ones, beside the ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato import viz
from sfumato.attacks.ceilings import excess_chance
from sfumato.errors.numbers import format_decimal, format_number

SURE = 1e-9
"""Chance below which so many right guesses say that a ceiling is false."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How often an attacker was right against one way of answering."""

    against: str
    """Who answered, in words, such as "exact totals"."""
    hits: int
    trials: int
    ceiling: float | None = None
    """Largest chance of a right guess that the guarantee allows; None where nothing is guaranteed."""
    error: float | None = None
    """Mean distance between guess and truth, where the secret is a number."""

    @property
    def success(self) -> float:
        """Share of guesses that were right."""
        return self.hits / self.trials if self.trials else 0.0

    @property
    def is_private(self) -> bool:
        """Whether a guarantee stands behind these answers."""
        return self.ceiling is not None

    @property
    def breaks_ceiling(self) -> bool:
        """Whether so many guesses were right that the guarantee must be false, wrong once in 10⁹ times."""
        return self.ceiling is not None and excess_chance(self.hits, self.trials, self.ceiling) < SURE

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "against": self.against,
            "success": self.success,
            "hits": self.hits,
            "trials": self.trials,
            "ceiling": self.ceiling,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, repr=False)
class AttackReport:
    """The outcomes of one attack, as text, as a dictionary, as HTML and as a chart."""

    attack: str
    aim: str
    """What the attacker wants and how, in one sentence."""
    right: str
    """What counts as a right guess."""
    baseline: float
    """Chance of a right guess without any answer."""
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def raw(self) -> Outcome:
        """The most successful outcome on answers without a guarantee."""
        return max((each for each in self.outcomes if not each.is_private), key=lambda each: each.success)

    @property
    def private(self) -> Outcome:
        """The most successful outcome on private answers."""
        return max((each for each in self.outcomes if each.is_private), key=lambda each: each.success)

    @property
    def breaks_ceiling(self) -> bool:
        """Whether any private outcome shows that its guarantee is false."""
        return any(each.breaks_ceiling for each in self.outcomes)

    def __getitem__(self, against: str) -> Outcome:
        return next(each for each in self.outcomes if each.against == against)

    def plot(self) -> viz.Chart:
        """Return the success against each way of answering, with a mark at each ceiling."""
        return viz.attack_bars(
            [each.against for each in self.outcomes],
            [each.success for each in self.outcomes],
            [each.ceiling for each in self.outcomes],
            baseline=self.baseline,
            title=self.aim,
            x=self.right,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "attack": self.attack,
            "aim": self.aim,
            "right": self.right,
            "baseline": self.baseline,
            "outcomes": [each.to_dict() for each in self.outcomes],
            "notes": list(self.notes),
            "breaks_ceiling": self.breaks_ceiling,
        }

    def __str__(self) -> str:
        table = [self._header(), *self._rows()]
        widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
        lines = ["  ".join(_pad(cell, widths[at], at) for at, cell in enumerate(row)) for row in table]
        said = [f"{self.attack}: {self.aim}", "", *(line.rstrip() for line in lines)]
        return "\n".join([*said, "", *self.notes] if self.notes else said)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = viz.html_table(self._header(), self._rows())
        return viz.paragraphs([f"{self.attack}: {self.aim}"]) + table + viz.paragraphs(self.notes)

    def _header(self) -> list[str]:
        errors = ["mean error"] if self._has_errors() else []
        return ["answers", self.right, "of", "ceiling", *errors]

    def _rows(self) -> list[list[str]]:
        rows = [
            [
                each.against,
                share_text(each.success),
                f"{each.trials:,}",
                "none" if each.ceiling is None else share_text(each.ceiling),
                *([_error_text(each.error)] if self._has_errors() else []),
            ]
            for each in self.outcomes
        ]
        blanks = [""] * (len(rows[0]) - 2)
        return [*rows, ["no answer: a guess", share_text(self.baseline), *blanks]]

    def _has_errors(self) -> bool:
        return any(each.error is not None for each in self.outcomes)


def share_text(share: float) -> str:
    """Return a share as per cent with one digit after the point, or more where that would show nothing."""
    return (
        f"{format_number(100 * share, 2)} %" if 0 < share < 0.0005 else f"{format_decimal(100 * share, 1)} %"
    )


def _error_text(error: float | None) -> str:
    return "" if error is None else format_number(error) if abs(error) < 1000 else format_decimal(error, 0)


def _pad(cell: str, width: int, position: int) -> str:
    return cell.rjust(width) if position else cell.ljust(width)
