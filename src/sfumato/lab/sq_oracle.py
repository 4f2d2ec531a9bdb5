"""The statistical-query oracle for one's own programs: noisy averages out of an ε set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.answers.results import NoisyFigure
from sfumato.curator.question.measurement import MeanOf, SumOf
from sfumato.errors import PolicyError
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from sfumato.curator.question.relation import Expression
    from sfumato.lab.partition import Partition
    from sfumato.lab.query import Query
    from sfumato.privacy.exact import Number
    from sfumato.queries.frames import Frame


class QueryOracle:
    """Noisy averages and counts for one's own programs, out of an ε set aside for them.

    Each of `questions` answers costs an equal part of it; more are refused. A program that learns about a
    table through this alone is as private as the ε says, whatever it does.
    """

    def __init__(self, frame: Frame[Query, Partition], epsilon: Number, questions: int) -> None:
        self._frame = frame
        self._each = parse_positive(epsilon, "epsilon") / parse_whole(questions, "questions")
        self._left = parse_whole(questions, "questions")

    def mean(self, of: str) -> NoisyFigure:
        """Return the share of rows for which a condition holds, or the average of a number."""
        return self._answer(MeanOf(_read(of)))

    def sum(self, of: str) -> NoisyFigure:
        """Return the sum of a number, or how many rows satisfy a condition."""
        return self._answer(SumOf(_read(of)))

    @property
    def left(self) -> int:
        """Number of questions that it still answers."""
        return self._left

    def __repr__(self) -> str:
        return f"Oracle on {self._frame.text}: {self._left} questions left"

    def _answer(self, aggregate: MeanOf | SumOf) -> NoisyFigure:
        if self._left < 1:
            raise PolicyError(
                "SF-N604", "This oracle has answered all its questions.", try_="s.oracle(…) anew"
            )
        query = self._frame.agg(value=aggregate)
        # Counted down before the answer: a failure after the charge has used it up too.
        self._left -= 1
        release = query.release(epsilon=self._each)
        span = release.interval(0.95).to_pydict()
        value = release.to_arrow().to_pydict()["value"][0]
        return NoisyFigure(value, span["value_low"][0], span["value_high"][0], release.receipt)


def _read(text: str) -> Expression:
    from sfumato.queries.aggregations import parse_column

    return parse_column(text)
