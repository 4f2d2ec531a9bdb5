"""What a steward holds of a survey: its links, its rounds, and what it has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.lab.surveys.charging import charge_round, open_budget, release_round
from sfumato.lab.surveys.result import SurveyResult
from sfumato.lab.surveys.store import SurveyStore
from sfumato.ledger import failpoints
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.lab.surveys.store import SurveyRecord, SurveyRound
    from sfumato.lab.surveys.terms import SurveyTerms
    from sfumato.ledger import Ledger, Released

MOST_INVITATIONS = 1_000_000


class Survey:
    """A survey of a lab. Each round is charged before it is opened, and reports are counted as they come."""

    def __init__(self, folder: Path, ledger: Ledger, name: str, links: tuple[str, ...] = ()) -> None:
        self._store, self._ledger = SurveyStore(folder), ledger
        self._name = self._store.read(name).terms.name
        self.links = links
        """Paths of the links that were made with this object. They are shown once and kept nowhere."""

    # ---- what it is ----

    @property
    def name(self) -> str:
        """Name of the survey in this lab."""
        return self._name

    @property
    def terms(self) -> SurveyTerms:
        """What the survey says to the people who answer it."""
        return self._record.terms

    @property
    def round(self) -> int:
        """Number of the newest round."""
        return self._record.newest.number

    @property
    def is_open(self) -> bool:
        """Whether answers are taken now."""
        return self._record.newest.state == "open"

    @property
    def has_begun(self) -> bool:
        """Whether a round was ever open; if not, creating it was cut off."""
        return self._record.has_begun

    @property
    def entry(self) -> int | None:
        """Number of the ledger's entry that charged the newest round."""
        return self._record.newest.entry

    # ---- links ----

    def invite(self, people: int) -> tuple[str, ...]:
        """Make invitations for so many more people, one each, and return their links."""
        self._require_invitations()
        count = parse_invitations(people)
        with self._store.lock():
            if self._store.count_invitations(self.name) + count > MOST_INVITATIONS:
                raise _too_many_error()
            self.links = _list_paths(self._store.add_invitations(self.name, count))
        return self.links

    def replace_links(self) -> tuple[str, ...]:
        """Withdraw all invitations that were never answered, and return links of as many new ones.

        Use it if links were lost: nobody can show an old one again.
        """
        self._require_invitations()
        with self._store.lock():
            self.links = _list_paths(self._store.replace_invitations(self.name))
        return self.links

    # ---- rounds ----

    def open_round(self) -> int:
        """Ask everyone once more, with fresh coins: the round is charged, then opened. Return its number."""
        with self._store.lock():
            newest = self._record.newest
            if newest.state == "drafted":
                number = newest.number
            elif newest.state == "closed":
                number = newest.number + 1
            else:
                raise PolicyError(
                    "SF-P124", f"Round {newest.number} is still open.", try_="survey.close() first"
                )
            if number > self.terms.asks:
                raise PolicyError(
                    "SF-N604",
                    f"'{self.name}' has promised to ask at most {self.terms.asks} times.",
                    try_="a new survey, which is a new promise to the people who answer it",
                )
            self._store.draft_round(self.name, number)
            open_charged_round(self._store, self._ledger, self._record)
        return number

    def close(self) -> SurveyResult:
        """Take no more answers, have the ledger keep the counts, and return the result."""
        with self._store.lock():
            newest = self._record.newest
            if newest.state == "drafted":
                raise PolicyError(
                    "SF-P124",
                    "This round has not begun.",
                    try_="lab.create_survey with the same words, or survey.open_round()",
                )
            if newest.state != "closed":
                self._store.close_round(self.name, newest.number, "closing")
                failpoints.reach("survey:closing")
                self._release(newest)
                failpoints.reach("survey:released")
                self._store.close_round(self.name, newest.number, "closed")
        return self.result()

    # ---- what it has found ----

    def result(self, round: int | None = None) -> SurveyResult:  # noqa: A002
        """Return the estimate from the answers so far, of the newest round or another. This is free."""
        record = self._record
        number = record.newest.number if round is None else parse_whole(round, "round")
        found = self._store.read_round(self.name, number)
        if found is None:
            raise UsageError(
                "SF-U101", "There is no such round.", got=str(number), newest=str(record.newest.number)
            )
        counts = self._store.count_reports(record.terms, number)
        return SurveyResult(record.terms, number, found.state == "open", counts, self._invited(record, found))

    def receipt(self) -> Released:
        """Return what the ledger keeps of the newest round, once it is closed."""
        record = self._record
        if record.newest.state != "closed":
            raise PolicyError("SF-P124", f"Round {self.round} is still open.", try_="survey.close() first")
        return self._release(record.newest)

    def to_dict(self) -> dict[str, Any]:
        """Return what there is to know about the survey, as plain values, with links made just now."""
        made = {"links": list(self.links)} if self.links else {}
        shared = {"link": path_of(self._record.link)} if self._record.link else {}
        return {**self.result().to_dict(), "entry": self.entry, **shared, **made}

    @property
    def link(self) -> str | None:
        """Path of the link that all share; None where each person has an invitation."""
        link = self._record.link
        return None if link is None else path_of(link)

    def __str__(self) -> str:
        return str(self.result())

    __repr__ = __str__

    # ---- parts ----

    @property
    def _record(self) -> SurveyRecord:
        return self._store.read(self._name)

    def _release(self, newest: SurveyRound) -> Released:
        record = self._record
        counts = self._store.count_reports(record.terms, newest.number)
        return release_round(self._ledger, record.terms, record.identity, newest.number, counts)

    def _invited(self, record: SurveyRecord, found: SurveyRound) -> int | None:
        if not record.terms.invited:
            return None
        return self._store.count_invitations(self.name) if found.invited is None else found.invited

    def _require_invitations(self) -> None:
        if not self.terms.invited:
            raise PolicyError(
                "SF-U104", f"Anyone with its link answers '{self.name}'.", try_="survey.link is that link"
            )


def create_survey(folder: Path, ledger: Ledger, terms: SurveyTerms, people: int) -> Survey:
    """Keep, charge and open a survey, in this order; after a crash the same call goes on where it was."""
    store = SurveyStore(folder)
    with store.lock():
        record = store.draft(terms)
        open_budget(ledger, terms)
        # Links of an attempt that was cut off reached nobody, so they are withdrawn.
        links = store.replace_invitations(terms.name, people)
        open_charged_round(store, ledger, record)
    return Survey(folder, ledger, terms.name, _list_paths(links))


def open_charged_round(store: SurveyStore, ledger: Ledger, record: SurveyRecord) -> None:
    """Charge the newest round that is drafted, durably, and only then open it."""
    newest = store.read(record.terms.name).newest
    failpoints.reach("survey:drafted")
    entry = charge_round(ledger, record.terms, record.identity, newest.number)
    failpoints.reach("survey:charged")
    store.open_round(record.terms.name, newest.number, entry)
    failpoints.reach("survey:opened")


def parse_invitations(people: Any) -> int:
    """Return a number of invitations to make."""
    count = parse_whole(people, "invitations")
    if count > MOST_INVITATIONS:
        raise _too_many_error()
    return count


def path_of(link: str) -> str:
    """Return the path of a link, which follows the address of the server."""
    return f"/s/{link}"


def _list_paths(links: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(path_of, links))


def _too_many_error() -> UsageError:
    return UsageError(
        "SF-N101",
        f"A survey has at most {MOST_INVITATIONS:,} invitations.",
        try_="a survey without invitations=, which anyone with its link answers",
    )
