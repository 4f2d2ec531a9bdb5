"""Requests for budget: an analyst asks for more with a reason, and the steward answers once.

A request is a text; only the steward's grant changes a quota, which is the ledger's. What a grant will set is
written down before the ledger is asked, so that after a crash the same grant is finished and no second one is
made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.grants import find_quota_holder
from sfumato.curator.payer import REVOKED, quota_account
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.lab.analysts import grant_quota, require_analyst_name
from sfumato.lab.budget_view import list_blocks, list_populations
from sfumato.ledger.api import parse_account
from sfumato.ledger.chain import require_utf8
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.lab.work.store import Fields, WorkStore
    from sfumato.ledger import Ledger
    from sfumato.privacy.exact import Number

OPEN, GRANTING, GRANTED, DECLINED, WITHDRAWN = "open", "granting", "granted", "declined", "withdrawn"
MAX_OPEN = 20
"""Most requests of one analyst that may wait for an answer."""
MAX_A_DAY = 100
"""Most requests that one analyst may make in a day, whatever became of them."""
MAX_TEXT = 2000
"""Most characters of a reason or a note."""


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A request for budget, as the analyst who made it and the steward see it."""

    number: int
    analyst: str
    asked: Budget
    """How much more is asked for."""
    reason: str
    day: str
    state: str
    granted: Budget | None
    """How much more was granted."""
    note: str
    """What the steward said."""
    answered: str | None

    def __str__(self) -> str:
        asks = f"{self.analyst} asks for {_say(self.asked)} more"
        lines = [
            f"request {self.number} of {self.day} ({self.state}): {asks}",
            f"  reason  {self.reason}",
        ]
        if self.answered is not None:
            given = f"granted {_say(self.granted)}" if self.granted is not None else self.state
            lines.append(f"  answer  {given} on {self.answered}" + (f": {self.note}" if self.note else ""))
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "request": self.number,
            "analyst": self.analyst,
            "asked": self.asked.to_dict(),
            "reason": self.reason,
            "day": self.day,
            "state": self.state,
            "granted": None if self.granted is None else self.granted.to_dict(),
            "note": self.note,
            "answered": self.answered,
        }


@dataclass(frozen=True, slots=True)
class SentRequest(BudgetRequest):
    """A request in the hands of the analyst who made it."""

    store: WorkStore = field(repr=False, compare=False)

    def withdraw(self) -> BudgetRequest:
        """Take the request back, unless it was answered."""
        with self.store.changing() as change:
            fields = _require_open(change.find_request(self.number), self.number)
            fields |= {"state": WITHDRAWN, "answered": _read_today()}
            change.put_request(self.number, fields)
        return read_request(self.number, fields)


@dataclass(frozen=True, slots=True)
class ReceivedRequest(BudgetRequest):
    """A request in the hands of the steward, who grants or declines it."""

    desk: RequestDesk = field(repr=False, compare=False)

    def grant(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        note: str = "",
        tables: Iterable[str] | None = None,
    ) -> BudgetRequest:
        """Add what was asked for, or as much as is said here, to the quota. Return the answered request.

        Someone who has no quota yet gets one on every population, or with `tables` for these alone.
        """
        return self.desk.grant(self.number, epsilon, delta, note, tables)

    def decline(self, why: str) -> BudgetRequest:
        """Say no and why. Return the answered request."""
        return self.desk.decline(self.number, why)


def read_request(number: int, fields: Fields) -> BudgetRequest:
    """Return the request that was stored."""
    return BudgetRequest(**_read(number, fields))


@dataclass(frozen=True, slots=True)
class RequestDesk:
    """Where requests are made and answered."""

    store: WorkStore
    ledger: Ledger
    catalog: Catalog
    lock: Callable[[], AbstractContextManager[None]]
    """Allows one change of quotas at a time, over all processes."""

    def add(self, analyst: str | None, epsilon: Number, delta: Number, reason: str) -> SentRequest:
        """Write down a request of an analyst, who need not have a quota yet."""
        if analyst is None:
            raise UsageError(
                "SF-W103", "The steward grants budget and need not request it.", try_="lab.grant(…)"
            )
        fields = {
            "analyst": require_analyst_name(analyst),
            "asked": Budget.of(epsilon, delta).to_dict(),
            "reason": _require_text(reason, "A reason"),
            "day": _read_today(),
            "state": OPEN,
            "granted": None,
            "note": "",
            "answered": None,
        }
        with self.store.changing() as change:
            own = {at: each for at, each in change.list_requests().items() if each["analyst"] == analyst}
            # The same wish sent twice, as by two tabs, is one wish.
            same = next((at for at, each in own.items() if {**each, "day": fields["day"]} == fields), None)
            if same is None:
                _require_patience(own.values(), fields)
            number = change.add_request(fields) if same is None else same
        return SentRequest(**_read(number, fields), store=self.store)

    def list_received(self) -> tuple[ReceivedRequest, ...]:
        """Return every request, oldest first, for the steward to answer."""
        found = self.store.read_requests().items()
        return tuple(ReceivedRequest(**_read(number, fields), desk=self) for number, fields in found)

    def list_sent(self, analyst: str) -> tuple[SentRequest, ...]:
        """Return the requests of an analyst, oldest first."""
        found = self.store.read_requests().items()
        return tuple(
            SentRequest(**_read(number, fields), store=self.store)
            for number, fields in found
            if fields["analyst"] == analyst
        )

    def grant(
        self,
        number: int,
        epsilon: Number | None = None,
        delta: Number | None = None,
        note: str = "",
        tables: Iterable[str] | None = None,
    ) -> BudgetRequest:
        """Raise the quotas that a request is about, once, whoever else answers it at the same time."""
        said = _require_text(note, "A note") if note else ""
        with self.lock():
            with self.store.changing() as change:
                fields = _require_unanswered(change.find_request(number), number)
                if fields["state"] == OPEN:
                    planned = self._plan_grant(fields, epsilon, delta)
                    fields |= planned | {"note": said, "tables": self._parse_tables(planned, tables)}
                    change.put_request(number, fields)
            self._apply_grant(fields)
            done = {"state": GRANTED, "answered": _read_today()}
            kept = {name: value for name, value in fields.items() if name not in ("quotas", "tables")}
            fields = kept | done
            with self.store.changing() as change:
                change.put_request(number, fields)
        return read_request(number, fields)

    def decline(self, number: int, why: str) -> BudgetRequest:
        """Answer a request with a reason and no budget."""
        said = _require_text(why, "A reason")
        with self.lock(), self.store.changing() as change:
            fields = _require_open(change.find_request(number), number)
            fields |= {"state": DECLINED, "note": said, "answered": _read_today()}
            change.put_request(number, fields)
        return read_request(number, fields)

    def _plan_grant(self, fields: Fields, epsilon: Number | None, delta: Number | None) -> Fields:
        """Return what a grant will set: for each account its quota before, if any, and after."""
        asked = Budget.from_dict(fields["asked"])
        more = Budget.of(
            asked.epsilon if epsilon is None else epsilon, asked.delta if delta is None else delta
        )
        quotas = []
        for account in self._find_accounts(fields):
            before = self.ledger.read_budget(account)
            # A quota that was taken away counts as none.
            base = (Fraction(0), Fraction(0)) if before == REVOKED else (before.epsilon, before.delta)
            after = Budget.of(base[0] + more.epsilon, base[1] + more.delta)
            quotas.append([account, before.to_dict(), after.to_dict()])
        return {"state": GRANTING, "granted": more.to_dict(), "quotas": quotas}

    def _find_accounts(self, fields: Fields) -> list[str]:
        """Return the quotas that the analyst spends, on populations there are."""
        holder = find_quota_holder(self.catalog.contents.grants, fields["analyst"])
        populations = list_populations(self.catalog.tables.values())
        known = self.ledger.list_accounts()
        names = [
            quota_account(each, holder) for each in (*populations, *list_blocks(self.ledger, populations))
        ]
        return [name for name in names if name in known and self.ledger.read_budget(name) != REVOKED]

    def _parse_tables(self, planned: Fields, tables: Iterable[str] | None) -> list[str] | None:
        """Return the tables that someone's first quota is for."""
        if tables is None:
            return None
        if planned["quotas"] or isinstance(tables, str):
            raise UsageError(
                "SF-U104",
                "tables= takes a list of names, for someone who has no quota yet.",
                try_='lab.grant("ada", epsilon=1, tables=["visits"])',
            )
        return [self.catalog.find_table(name).name for name in tables]

    def _apply_grant(self, fields: Fields) -> None:
        """Set the quotas that were planned. What was changed since by other means stays as it is."""
        if not fields["quotas"]:
            self._grant_first(fields["analyst"], Budget.from_dict(fields["granted"]), fields["tables"])
        for account, before, after in fields["quotas"]:
            if self.ledger.read_budget(account) == Budget.from_dict(before):
                self.ledger.grant(account, Budget.from_dict(after))

    def _grant_first(self, analyst: str, quota: Budget, tables: list[str] | None) -> None:
        """Give a quota to someone who has none."""
        held = [each for each in self.ledger.list_accounts() if parse_account(each)[1] == analyst]
        if {self.ledger.read_budget(each) for each in held} <= {REVOKED, quota}:
            grant_quota(self.ledger, self.catalog, analyst, quota, tables, later=False)


def _read(number: int, fields: Fields) -> dict[str, Any]:
    granted = None if fields["granted"] is None else Budget.from_dict(fields["granted"])
    names = ("analyst", "reason", "day", "state", "note", "answered")
    known = {name: fields[name] for name in names}
    return {"number": number, "asked": Budget.from_dict(fields["asked"]), "granted": granted, **known}


def _require_patience(own: Iterable[Fields], new: Fields) -> None:
    """Refuse more requests of one analyst than a steward could answer."""
    known = list(own)
    waiting = sum(each["state"] in (OPEN, GRANTING) for each in known)
    if waiting >= MAX_OPEN or sum(each["day"] == new["day"] for each in known) >= MAX_A_DAY:
        raise PolicyError(
            "SF-W166",
            f"At most {MAX_OPEN} requests of '{new['analyst']}' may wait, and {MAX_A_DAY} be made in a day.",
            try_="s.requests()[0].withdraw(), or tomorrow",
        )


def _require_unanswered(fields: Fields | None, number: int) -> Fields:
    """Return a request that waits, or whose grant was begun and not finished."""
    if fields is None:
        raise PolicyError("SF-U101", f"There is no request {number}.", try_="lab.requests()")
    if fields["state"] not in (OPEN, GRANTING):
        raise PolicyError(
            "SF-P124",
            f"Request {number} was answered already.",
            answer=fields["state"],
            on=str(fields["answered"]),
            try_="lab.grant(…) for anything more",
        )
    return fields


def _require_open(fields: Fields | None, number: int) -> Fields:
    """Return a request that waits for its answer."""
    found = _require_unanswered(fields, number)
    if found["state"] == GRANTING:
        raise PolicyError(
            "SF-P124", f"Request {number} is being granted.", try_=f"lab.requests()[{number - 1}].grant()"
        )
    return found


def _say(budget: Budget | None) -> str:
    if budget is None:
        return "nothing"
    return f"ε = {format_number(budget.epsilon)}" + (
        f" and δ = {format_number(budget.delta)}" if budget.delta else ""
    )


def _read_today() -> str:
    """Return the day in UTC, by which requests are dated."""
    return datetime.now(UTC).date().isoformat()


def _require_text(text: Any, what: str) -> str:
    """Return a text that people will read, without spaces around it."""
    if isinstance(text, str) and text.strip() and len(text) <= MAX_TEXT:
        require_utf8(text)
        return text.strip()
    raise UsageError(
        "SF-P113",
        f"{what} is needed, in words, of at most {MAX_TEXT:,} characters.",
        try_="a sentence or two",
    )
