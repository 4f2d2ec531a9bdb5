"""Checks that every question passes, however it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.question.measurement import Question


def check_question(question: Question) -> Question:
    """Return the question if its names are unambiguous and it asks for a number; raise otherwise."""
    keys = [str(key).casefold() for key in question.keys]
    if len(set(keys)) < len(keys):
        raise PolicyError("SF-Q109", "GROUP BY names a column twice.")
    # Names that differ only in case are one name to SQL and to most who read the answer.
    names = [output.name.casefold() for output in question.outputs]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q115", "Two columns of the answer have the same name.", try_="AS another_name")
    if not question.figures:
        raise PolicyError(
            "SF-Q116",
            "The question asks for no aggregate.",
            try_="SELECT COUNT(*) FROM …",
        )
    return question
