"""What a respondent's link opens: the question, and the one place where a report is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.lab.surveys.store import SurveyStore, unknown_link_error
from sfumato.lab.surveys.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.lab.surveys.result import SurveyResult
    from sfumato.lab.surveys.store import FoundLink
    from sfumato.lab.surveys.terms import SurveyTerms
    from sfumato.ledger import Ledger

_FIELDS = {"question", "round", "report"}


class Invitation:
    """A link as the person sees it who got it. It takes randomized reports and knows no truth."""

    def __init__(self, folder: Path, ledger: Ledger, link: str) -> None:
        self._folder, self._ledger, self._store = folder, ledger, SurveyStore(folder)
        self._link = link.removeprefix("/s/") if isinstance(link, str) else ""
        self._found = self._find()

    @property
    def terms(self) -> SurveyTerms:
        """What the survey says."""
        return self._found.record.terms

    @property
    def round(self) -> int:
        """Number of the newest round."""
        return self._found.record.newest.number

    @property
    def is_open(self) -> bool:
        """Whether answers are taken now."""
        return self._found.record.newest.state == "open"

    @property
    def has_answered(self) -> bool:
        """Whether a report came with this invitation in the newest round."""
        return self._found.answered >= self.round

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        return {
            **self.terms.describe(),
            "round": self.round,
            "open": self.is_open,
            "answered": self.has_answered,
            "law": self.terms.mechanism.question(),
        }

    def answer(self, message: Any) -> bool:
        """Count the report in a message; return False if one was counted with this invitation before.

        A message has the id of the question's law, the round, and the report, a place in the choices. One
        that was made with another ε, for other choices or in another round is refused.
        """
        report = self._parse(message)
        counted = self._store.take_answer(self._link, self.round, report)
        self._found = self._find()
        return counted

    def result(self) -> SurveyResult:
        """Return the result, where the steward has made it public."""
        if not self.terms.public:
            raise PolicyError("SF-W103", "The result of this survey is for its steward.", try_="ask them")
        return Survey(self._folder, self._ledger, self.terms.name).result()

    def _find(self) -> FoundLink:
        found = self._store.find_link(self._link)
        if found is None or not found.record.has_begun:
            raise unknown_link_error()
        return found

    def _parse(self, message: Any) -> int:
        law = self.terms.mechanism.question()
        if not isinstance(message, Mapping) or set(message) != _FIELDS:
            raise _message_error("it has a question, a round and a report, and nothing else")
        if message["question"] != law["id"]:
            raise _message_error("it was made for another question, or with another ε")
        if type(message["round"]) is not int or message["round"] != self.round:
            raise _message_error(f"it was not made for round {self.round}")
        report = message["report"]
        if type(report) is not int or not 0 <= report < law["values"]:
            raise _message_error(f"its report is not a whole number from 0 to {law['values'] - 1}")
        return report


def _message_error(why: str) -> UsageError:
    return UsageError(
        "SF-N502", "This report cannot be counted.", why=why, try_="load the page again, and answer there"
    )
