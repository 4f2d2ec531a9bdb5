"""One question, round after round: fresh coins cost in every round, kept answers cost once.

A person who tosses new coins each time gives their truth away by and by, since an average sees through the
noise. A person who keeps the first report and repeats it tells nothing more, and nothing new.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number, format_share
from sfumato.local.response import RandomizedResponse
from sfumato.local.subset import SubsetResponse
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.local.estimate import Estimate
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.events import Event

ValueMechanism = RandomizedResponse | SubsetResponse


@dataclass(frozen=True, slots=True)
class RepeatedSurvey:
    """One question asked in `rounds` rounds. Coins are tossed anew every `renew` rounds, or only once.

    Privacy
    -------
    Protects : all truths of one respondent, in all rounds (replace-one), however they change.
    Costs    : the mechanism's price, as often as coins are tossed: ⌈rounds/renew⌉ times, or once.
    Because  : docs/proofs/local.md
    Assumes  : rounds of renewal are fixed in advance and do not depend on the truths; memos are kept safe.
    """

    mechanism: ValueMechanism
    rounds: int
    renew: int | None = None

    def __post_init__(self) -> None:
        parse_whole(self.rounds, "rounds")
        if self.renew is not None:
            parse_whole(self.renew, "renew")
        if not isinstance(self.mechanism, RandomizedResponse | SubsetResponse):
            raise UsageError(
                "SF-N512",
                "Rounds can be repeated for questions about values.",
                got=type(self.mechanism).__name__,
                try_="RandomizedResponse or SubsetResponse",
            )

    @property
    def tosses(self) -> int:
        """How often a person tosses coins."""
        return -(-self.rounds // (self.renew or self.rounds))

    @property
    def epsilon(self) -> Fraction:
        """Pure ε for each person, over all rounds."""
        return self.mechanism.epsilon * self.tosses

    def event(self, times: int = 1) -> Event:
        """Return the price over all rounds, for a person who is in so many such surveys."""
        return self.mechanism.event(self.tosses * times)

    @property
    def guess_rate(self) -> float:
        """How often a truth that never changes is guessed from all reports, at most, if all are as likely."""
        if isinstance(self.mechanism, RandomizedResponse):
            return self.mechanism.repeat(self.tosses).guess_rate
        return 1 / (1 + (self.mechanism.values - 1) * math.exp(-float(self.epsilon)))

    def privatize(self, truths: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]:
        """Return the reports of all people in all rounds: a row of truths, and a row of reports, for each."""
        exact = np.asarray(truths)
        if exact.ndim != 2 or exact.shape[0] != self.rounds:
            raise UsageError(
                "SF-N203",
                "Truths are given as one row for each round.",
                got=f"shape {exact.shape}",
                rounds=str(self.rounds),
            )
        told = exact[:: self.renew or self.rounds]
        reports = observed(self, told, 1, lambda: self.mechanism.privatize(told, source=source))
        return np.asarray(np.repeat(reports, self.renew or self.rounds, axis=0)[: self.rounds])

    def estimate(self, reports: Any) -> Estimate:
        """Return the estimate from the reports of one round: of the truths when coins were last tossed."""
        return self.mechanism.estimate(reports)

    def expected_error(self, answers: int) -> float:
        """Return the mechanism's expected error for one round."""
        return self.mechanism.expected_error(answers)

    def __str__(self) -> str:
        kept = "once" if self.tosses == 1 else f"{self.tosses} times"
        return (
            f"Asked in {self.rounds} rounds, coins tossed {kept}: ε "
            f"= {format_number(self.epsilon)} in all; a "
            f"truth that stays is guessed at most {format_share(self.guess_rate)} of the time."
        )


class AnswerMemo:
    """What one person keeps: the report of each time that coins were tossed. It belongs to them alone."""

    def __init__(self, survey: RepeatedSurvey, kept: Mapping[str, Any] | None = None) -> None:
        self._survey, self._id = survey, survey.mechanism.question()["id"]
        self._reports: dict[int, int | list[int]] = {}
        if kept is not None:
            if kept.get("question") != self._id:
                raise UsageError(
                    "SF-N512", "A memo was kept for another question.", this=self._id, try_="a new memo"
                )
            self._reports = {int(toss): report for toss, report in kept["reports"].items()}

    def answer(self, truth: int, round: int = 1, *, source: BitSource = OS) -> dict[str, Any]:  # noqa: A002
        """Return the message for a round, the first being 1: a new report, or the one that is kept."""
        if not 1 <= parse_whole(round, "round") <= self._survey.rounds:
            raise UsageError(
                "SF-N203", "The survey has no such round.", got=str(round), rounds=str(self._survey.rounds)
            )
        toss = (round - 1) // (self._survey.renew or self._survey.rounds)
        if toss not in self._reports:
            self._reports[toss] = np.asarray(self._survey.mechanism.privatize(truth, source=source)).tolist()
        return {"question": self._id, "report": self._reports[toss]}

    def to_json(self) -> str:
        """Return the memo as a text, for the person to keep."""
        return json.dumps({"question": self._id, "reports": self._reports})

    @classmethod
    def from_json(cls, survey: RepeatedSurvey, text: str) -> AnswerMemo:
        """Return the memo that a person kept."""
        return cls(survey, json.loads(text))
