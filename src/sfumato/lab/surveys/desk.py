"""Surveys of a lab, whose answers people randomize themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.lab.surveys.invitation import Invitation
    from sfumato.lab.surveys.survey import Survey
    from sfumato.ledger import Ledger
    from sfumato.privacy.exact import Number


class SurveyDesk:
    """The part of a lab that is about surveys. `Lab` is one."""

    folder: Path
    ledger: Ledger

    def create_survey(
        self,
        name: str,
        *,
        question: str,
        choices: Sequence[str] = ("Yes", "No"),
        epsilon: Number | str,
        invitations: int | None = None,
        asks: int = 1,
        public: bool = False,
    ) -> Survey:
        """Charge and open a survey. Its `links` are the invitations, one for each person, shown once.

        `epsilon` is a number or a level in words: "3 in 4" says that a guess about someone is right at most 3
        times in 4, and is the fair coin. Without `invitations` there is one link, and anyone who has it
        answers. `asks` is how many rounds there may ever be; each is charged. With `public` everyone with a
        link sees the result.
        """
        from sfumato.lab.surveys import survey, terms

        people = 0 if invitations is None else survey.parse_invitations(invitations)
        invited = invitations is not None
        said = terms.parse_terms(name, question, choices, epsilon, asks, invited=invited, public=public)
        return survey.create_survey(self.folder, self.ledger, said, people)

    def survey(self, name: str) -> Survey:
        """Return a survey, to close it, to open its next round, or to see what it has found."""
        from sfumato.lab.surveys.survey import Survey

        return Survey(self.folder, self.ledger, name)

    def surveys(self) -> tuple[Survey, ...]:
        """Return every survey."""
        from sfumato.lab.surveys.store import SurveyStore

        return tuple(map(self.survey, SurveyStore(self.folder).list_names()))

    def open_invitation(self, link: str) -> Invitation:
        """Return what a respondent's link opens. It takes randomized reports alone."""
        from sfumato.lab.surveys.invitation import Invitation

        return Invitation(self.folder, self.ledger, link)
