"""What a survey has found so far: estimated shares, their intervals, and who did not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_share
from sfumato.local.estimate import Estimate
from sfumato.viz.tables import definition_table

if TYPE_CHECKING:
    from sfumato.lab.surveys.terms import SurveyTerms
    from sfumato.local.estimate import Interval
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True, repr=False)
class SurveyResult:
    """The estimate from the reports of one round. It is post-processing and costs nothing."""

    terms: SurveyTerms
    round: int
    is_open: bool
    counts: tuple[int, ...]
    """How often each report came; a report is not a truth."""
    invited: int | None
    """Number of invitations, or None where anyone with the link answers."""

    @property
    def answers(self) -> int:
        """Number of reports."""
        return sum(self.counts)

    @property
    def missing(self) -> int | None:
        """Number of people who were invited and did not answer; None where that is not known."""
        return None if self.invited is None else self.invited - self.answers

    @property
    def estimate(self) -> Estimate:
        """The estimate among those who answered, as sf.local makes it."""
        if not self.answers:
            raise UsageError("SF-N606", "Nobody has answered yet.", try_="wait for answers")
        return Estimate(self.counts, self.terms.mechanism.truth, self.terms.mechanism.lie)

    @property
    def shares(self) -> dict[str, float]:
        """Estimated share of each choice, unbiased; noise may take one below 0 or above 1."""
        return dict(zip(self.terms.choices, self.estimate.shares, strict=True))

    def interval(self, choice: str, confidence: Number = 0.95, *, population: bool = False) -> Interval:
        """Return the confidence interval for the share of a choice among those who answered.

        With `population` it is for a large population of which they are a random sample.
        """
        return self.estimate.interval(confidence, of=self._place(choice), population=population)

    def widest(self, choice: str, confidence: Number = 0.95) -> Interval:
        """Return the interval for all who were invited, whatever those would say who did not answer.

        It assumes nothing about them: at one end none of them has this answer, at the other all have.
        """
        if not self.invited:
            raise UsageError("SF-U104", "Who was not reached by an open link is not known.", try_="interval")
        low, high = self.interval(choice, confidence)
        answered = self.answers / self.invited
        return low * answered, high * answered + (1 - answered)

    def plot(self, confidence: Number = 0.95) -> viz.Chart:
        """Return a chart of the estimated shares with their intervals."""
        ends = [self.interval(choice, confidence) for choice in self.terms.choices]
        low, high = zip(*ends, strict=True)
        shares = [min(max(each, 0.0), 1.0) for each in self.estimate.shares]
        title = f"{self.terms.question} ({self.answers:,} answers)"
        return viz.bars(self.terms.choices, shares, low, high, title=title, x="answer", y="share")

    def list_rows(self) -> list[tuple[str, float, float, float]]:
        """Return each choice with its share and the ends of its 95 % interval, none of them out of range."""
        if not self.answers:
            return []
        return [
            (choice, min(max(share, 0.0), 1.0), *self.interval(choice))
            for choice, share in self.shares.items()
        ]

    @property
    def response_sentence(self) -> str:
        """Who answered, in words."""
        people = "1 person" if self.answers == 1 else f"{self.answers:,} people"
        if self.missing is None:
            return f"{people} answered. How many did not is unknown, because anyone with the link answers."
        return f"{people} of {self.invited:,} invited answered, {self.missing:,} did not."

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, with 95 % intervals."""
        shares = self.shares if self.answers else {}
        return {
            **self.terms.describe(),
            "round": self.round,
            "open": self.is_open,
            "answers": self.answers,
            "invited": self.invited,
            "missing": self.missing,
            "results": [
                {
                    "choice": choice,
                    "share": share,
                    "interval": list(self.interval(choice)),
                    "interval_of_invited": list(self.widest(choice)) if self.invited else None,
                }
                for choice, share in shares.items()
            ],
        }

    def __str__(self) -> str:
        return "\n".join(f"{name}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return definition_table(self._lines())

    def _place(self, choice: str) -> int:
        if choice not in self.terms.choices:
            raise UsageError(
                "SF-N502", "This is not one of the choices.", choices=", ".join(self.terms.choices)
            )
        return self.terms.choices.index(choice)

    def _lines(self) -> list[tuple[str, str]]:
        state = "open" if self.is_open else "closed"
        lines = [("survey", f"{self.terms.name}, round {self.round} of at most {self.terms.asks}, {state}")]
        lines += [("question", self.terms.question), ("answers", self.response_sentence)]
        for choice, share, low, high in self.list_rows():
            shown = (
                f"{format_share(share)} (95 %: {format_share(low)} to "
                f"{format_share(high)} of those who answered)"
            )
            if self.missing:
                least, most = self.widest(choice)
                shown += (
                    f"; {format_share(least)} to {format_share(most)} of "
                    "all invited, whatever the others would say"
                )
            lines.append((choice, shown))
        return lines
