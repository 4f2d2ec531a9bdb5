"""What is quoted and released like a question and is none, or several: nobody's rows are bounded in it."""

from __future__ import annotations

from typing import Any, NoReturn

from sfumato.errors import PolicyError


class HasNoBounds:
    """Refuses what a single question does about how much of one unit counts."""

    __slots__ = ()

    def bounded(self, **_: Any) -> NoReturn:
        """Refuse: groups and rows of a unit are those of a single question."""
        raise no_single_question_error("bounded")

    def clipped(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a unit's total is that of the only sum of a single question."""
        raise no_single_question_error("clipped")

    def tune(self, **_: Any) -> NoReturn:
        """Refuse, for nothing: several questions have no bounds in common to be picked."""
        raise no_single_question_error("tuned")

    def tuning(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, for nothing: several questions have no bounds in common to be picked."""
        raise no_single_question_error("tuned")


def no_single_question_error(done: str) -> PolicyError:
    """Return the refusal of bounds for what is not a single question."""
    return PolicyError(
        "SF-Q210",
        f"Only a single question can be {done}; nothing was charged.",
        try_="the questions one by one",
    )
