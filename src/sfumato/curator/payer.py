"""Who pays for a question: an analyst's accounts, what a price does to them, and the way to the gate."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from sfumato.curator.catalog.grants import find_quota_holder
from sfumato.curator.gate import answer_charge, answer_plan, read_steps
from sfumato.curator.plan.spend import Needs, Spend, parse_spend
from sfumato.engines.rows import list_scans
from sfumato.errors import EngineError, PolicyError
from sfumato.ledger import Charge, Released
from sfumato.ledger.api import (
    Reserved,
    SnapshotRead,
    hash_reads,
    require_step_count,
)
from sfumato.privacy.account import NOTHING, Allowance, Caps, Cost, Left, left
from sfumato.privacy.budget import Budget
from sfumato.privacy.neighbours import common_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.curator.catalog.catalog import CatalogContents, Table
    from sfumato.curator.catalog.publications import Publication
    from sfumato.curator.gate import Read
    from sfumato.curator.hostile.reading import SlotReader, WatchedReader
    from sfumato.curator.incidents import Incidents
    from sfumato.curator.plan.priced import Plan, Step
    from sfumato.engines.program import Engine
    from sfumato.ledger import Ledger
    from sfumato.privacy.exact import Number


class Spending(TypedDict, total=False):
    """The ways to say how much a question may cost."""

    epsilon: Number
    delta: Number
    rho: Number
    share: Number
    risk: Number
    """Largest chance that a guess from 50:50 about one unit is right, by this answer alone."""
    error: dict[str, Number]
    given: dict[str, int] | None
    """Public guesses that only expected errors use, such as {"n": 1000} for the rows of a group."""
    clip: str | None
    """"auto" if a part of ε pays for the ends that values of a single question are clipped to."""


class LabAccess(Protocol):
    """What those who ask need of a lab: its tables, its ledger, its engine, and where failures are noted."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def incidents(self) -> Incidents: ...

    @property
    def streams_folder(self) -> Path:
        """Where streams keep what is secret."""

    @property
    def synthetic_folder(self) -> Path:
        """Where synthetic tables that were published lie. They are public."""

    @property
    def contents(self) -> CatalogContents:
        """All that the catalog says now: the same object until it changes."""

    def table(self, name: str) -> Table: ...

    def tables(self) -> tuple[Table, ...]: ...

    def publications(self) -> tuple[Publication, ...]: ...

    def reading(self, snapshots: Collection[str]) -> AbstractContextManager[None]:
        """Keep these snapshots where they are until the block ends."""

    def create_beside(self, folder: Path) -> Any:
        """Make a new lab, such as one of stand-ins to rehearse in."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a price does to the accounts that pay it."""

    share: float
    """Share of the budget that it takes."""
    left: Fraction
    """Largest pure-ε question that is possible before it."""
    left_after: Fraction | None
    """Largest pure-ε question that is possible after it; none when it would be refused."""
    free: bool
    """Whether the same was answered before, so that it costs nothing."""
    slot: float | None = None
    """Seconds until the reply leaves, in a hostile session."""
    paid: bool = False
    """Whether a run was charged before and not answered yet, so that it goes on and costs nothing more."""


@dataclass(frozen=True, slots=True)
class Payer:
    """An analyst who pays for questions to a lab; without a name, its steward."""

    lab: LabAccess
    analyst: str | None
    slots: SlotReader | WatchedReader | None = None
    """What reads for a hostile session; without it, questions are read here and replies leave at once."""

    @property
    def holder(self) -> str | None:
        """Whose quota pays beside the population's budget; None for the steward, who pays from that alone."""
        return None if self.analyst is None else find_quota_holder(self.lab.contents.grants, self.analyst)

    def accounts(self, table: Table) -> tuple[str, ...]:
        """Return the names of the accounts that pay for a question about a table."""
        return list_accounts(table.population, self.holder)

    def spend(self, table: Table, needs: Needs, typed: Spending) -> Spend:
        """Return what was typed as a spend; shares are of the smallest account that pays."""
        amounts = {name: value for name, value in typed.items() if value is not None}
        # The ledger is read for a share alone.
        return parse_spend(amounts, needs, lambda: self._smallest_allowance(table))

    def standing(self, plan: Plan[Any, Any], *, in_stretches: bool = False) -> Standing:
        """Return what paying for a plan, at once or in stretches, would do to the accounts.

        Nothing is charged.
        """
        if self.was_answered(plan):
            return self._standing(dict.fromkeys(self.accounts(plan.table), NOTHING), free=True)
        self._require_little_work(plan)
        if in_stretches and self._was_begun(plan):
            return replace(self._standing(dict.fromkeys(self.accounts(plan.table), NOTHING)), paid=True)
        standing = self._standing(dict.fromkeys(self.accounts(plan.table), plan.cost))
        return replace(standing, slot=None if self.slots is None else self.slots.slot(plan))

    def was_answered(self, plan: Plan[Any, Any]) -> bool:
        """Return whether the same was answered before or needs no row, so that it costs nothing."""
        # Whoever has no account here is refused first, and learns nothing of what others asked.
        for account in list_accounts(plan.table.population, self.holder):
            if self.lab.ledger.read_budget(account) == REVOKED:
                raise no_quota_error(self.analyst)
        return plan.is_empty or find_kept(self.lab.ledger, plan) is not None

    def _was_begun(self, plan: Plan[Any, Any]) -> bool:
        """Return whether these accounts have paid for a run in stretches that is not answered yet."""
        charge = self.make_charge(plan, "", _name_run(plan))
        # A price of the whole run is an entry of its own.
        charges = charge, replace(charge, key=_name_price(charge))
        return any(self.lab.ledger.find_charge(each) is not None for each in charges)

    def can_afford(self, plan: Plan[Any, Any], cost: Cost) -> bool:
        """Return whether the accounts that pay for a plan hold a cost, such as that of many like it."""
        states = self._states(self.accounts(plan.table))
        return all(cap.holds(spent + cost) for cap, spent in dict.fromkeys(states))

    def find_left(self, plan: Plan[Any, Any]) -> Fraction:
        """Return the largest pure-ε question that the accounts which pay for a plan still allow."""
        return _least(self._states(self.accounts(plan.table))).epsilon

    def standing_after(self, table: Table, costs: Mapping[str, Cost]) -> Standing:
        """Return what costs that fall on some accounts of a table's population would do to all of them."""
        return self._standing({name: costs.get(name, NOTHING) for name in self.accounts(table)})

    def pay(self, plan: Plan[Any, Any], text: str, key: str | None = None) -> Released:
        """Charge, then answer; what was answered before is given again for nothing."""
        self.require_admissible(plan)
        charge = self.make_charge(plan, text, key)
        # Looked for first without a lock, so that nobody who asks is in the way of who erases.
        snapshots = self._require_current(plan)
        with ExitStack() as held, self._begin_reading(plan, held.close) as read:
            held.enter_context(self.lab.reading(snapshots))
            # No snapshot may be erased between this check and the end of the scan.
            self._require_current(plan)
            self._require_engine(plan)
            return answer_plan(plan, charge, self.lab.ledger, read, self.lab.incidents)

    def pay_stretches(
        self,
        plan: Plan[Any, Any],
        text: str,
        stretches: int,
        begin: Callable[[Callable[[], int]], Read],
        *,
        whole: bool = False,
    ) -> Released:
        """Charge for a run of equal stretches at once, or go on with a charge of it that is open.

        `begin` is given what counts one more stretch durably, and returns what reads. It counts the first.
        A price of the `whole` run has no equal parts: it is an entry of its own before the stretches, which
        then are counted and cost nothing, so that none of it can be given back.
        """
        self.require_admissible(plan)
        require_step_count(stretches)  # before a price of the whole is charged
        key, ledger = _name_run(plan), self.lab.ledger
        one = NOTHING if whole else plan.cost.divide(stretches)
        charge = replace(self.make_charge(plan, text, key), cost=one)
        snapshots = self._require_current(plan)
        with self.lab.reading(snapshots):
            self._require_current(plan)
            self._require_engine(plan)
            kept = self._charge_whole(replace(charge, cost=plan.cost)) if whole else None
            if kept is not None:
                return kept
            open_ = ledger.find_charge(charge)
            if open_ is None:
                reserved = ledger.reserve(charge, stretches)
            else:
                run = charge.accounts, one, stretches
                reserved = Reserved(open_.seq, open_.head, plan.cost, plan.request, *run)
            if isinstance(reserved, Released):
                return reserved
            read = begin(partial(ledger.draw, reserved))
            return answer_charge(plan, reserved, ledger, read, self.lab.incidents)

    def _charge_whole(self, charge: Charge) -> Released | None:
        """Charge for all of a run, once for those who pay; an answer that is kept by now needs no charge.

        The entry is never answered: it is spent, and whoever else begins the same run pays for their own.
        """
        paid = replace(charge, key=_name_price(charge))
        if self.lab.ledger.find_charge(paid) is not None:
            return None
        charged = self.lab.ledger.charge(paid)
        return charged if isinstance(charged, Released) else None

    def require_admissible(self, plan: Plan[Any, Any]) -> None:
        """Refuse a price for other neighbours than the table's, and what one unit could make too slow."""
        common_relation([plan.table.neighbours, plan.event.neighbours])
        self._require_little_work(plan)

    def make_charge(self, plan: Plan[Any, Any], text: str, key: str | None = None) -> Charge:
        """Return the charge for a plan, which all accounts of the payer pay that it concerns."""
        return Charge(
            accounts=self.accounts(plan.table),
            cost=plan.cost,
            request=plan.request,
            about=self._about(plan, text),
            key=key,
            neighbours=plan.table.relation,
            reads=self._reads(plan),
        )

    @contextmanager
    def _begin_reading(self, plan: Plan[Any, Any], done: Callable[[], object]) -> Iterator[Read]:
        """Yield what reads for a plan: here, or for a hostile session in a worker.

        A worker is done with the rows before its reply leaves, and `done` is called then.
        """
        # An answer that is kept needs no worker, and leaves at once: that it was kept is public.
        if self.slots is None or self.was_answered(plan):
            yield partial(read_steps, engine=self.lab.engine)
        else:
            with self.slots.begin(plan, done) as read:
                yield read

    def _require_little_work(self, plan: Plan[Any, Any]) -> None:
        """Refuse what one unit could make fail or take long, unless it was answered before."""
        refusal = plan.work.find_refusal()
        if refusal is not None and not self.was_answered(plan):
            raise refusal

    def _reads(self, plan: Plan[Any, Any]) -> tuple[SnapshotRead, ...]:
        begun = self.lab.contents.begun
        return tuple(SnapshotRead(name, own, begun.get(name, "")) for name, own in plan.identities)

    def _require_current(self, plan: Plan[Any, Any]) -> set[str]:
        """Return the snapshots that are asked; a price is for these, and if one is gone would buy nothing."""
        asked = {snapshot for step in plan.steps for snapshot in _snapshots(step)}
        if not asked <= {table.snapshot_name for table in self.lab.tables()}:
            raise PolicyError(
                "SF-C135",
                "The table got a new snapshot while this was being asked; nothing was charged.",
                try_="ask again",
            )
        return asked

    def _require_engine(self, plan: Plan[Any, Any]) -> None:
        """If an engine is down, a charge would buy nothing. A kept answer needs no engine."""
        if self.was_answered(plan):
            return
        programs = {tuple(_snapshots(step)): step.program for step in plan.steps}
        try:
            for program in programs.values():
                self.lab.engine.check(program)
        except EngineError:
            for snapshot in self._reads(plan):
                # Another copy of the folder may have replaced it, and then no engine will ever have it.
                self.lab.ledger.require_newest(snapshot)
            raise

    def _smallest_allowance(self, table: Table) -> Allowance:
        allowed = map(self.lab.ledger.read_allowance, list_accounts(table.population, self.holder))
        return min(allowed, key=lambda each: each.budget.epsilon)

    def _standing(self, costs: Mapping[str, Cost], *, free: bool = False) -> Standing:
        """Return what costs, each of its account, would do to these accounts."""
        alike = dict.fromkeys(zip(self._states(tuple(costs)), costs.values(), strict=True))
        before = [state for state, _ in alike]
        after = [(cap, spent + cost) for (cap, spent), cost in alike]
        # Every account that pays must admit its cost; the tightest of them is shown.
        admitted = all(cap.holds(total) for cap, total in after)
        before_left, after_left = _least(before), _least(after)
        share = before_left.share - after_left.share
        return Standing(share, before_left.epsilon, after_left.epsilon if admitted else None, free)

    def _states(self, names: tuple[str, ...]) -> list[tuple[Caps, Cost]]:
        """Return what each account may spend and what it has spent."""
        ledger = self.lab.ledger
        return [(ledger.read_allowance(name).caps, ledger.read_spent(name)) for name in names]

    def _about(self, plan: Plan[Any, Any], text: str) -> dict[str, Any]:
        """Return what the ledger keeps beside a charge, for people to read."""
        return {
            "analyst": self.analyst or "",
            "question": text,
            "table": plan.table.name,
            "snapshot": plan.table.snapshot,
            "spend": plan.charged,
            "event": plan.event.to_dict(),
        }


def find_kept(ledger: Ledger, plan: Plan[Any, Any]) -> Released | None:
    """Return the kept answer to a plan about the very snapshots that it reads, if there is one."""
    return ledger.find_release(plan.request, hash_reads(plan.identities))


def _name_run(plan: Plan[Any, Any]) -> str:
    """Return the key under which a run in stretches is charged."""
    return f"run {plan.request}"


def _name_price(charge: Charge) -> str:
    """Return the key under which the price of a whole run is charged."""
    return f"price of {charge.key}"


def _snapshots(step: Step) -> list[str]:
    return [scan.snapshot for scan in list_scans(step.program.rows)]


def _least(states: list[tuple[Caps, Cost]]) -> Left:
    """Return what the tightest account still allows. Accounts that are alike are looked at once."""
    return min((left(cap, spent) for cap, spent in dict.fromkeys(states)), key=lambda rest: rest.epsilon)


REVOKED = Budget(Fraction(1, 10**15))
"""The quota of an analyst from whom it was taken away: less than the least that any question costs."""


def no_quota_error(analyst: object) -> PolicyError:
    """Return the refusal of someone who has no quota."""
    return PolicyError(
        "SF-B103",
        f"'{analyst}' has no quota here.",
        try_=f'lab.grant("{analyst}", epsilon=1), or lab.session() as the steward',
    )


# ---- accounts ----------------------------------------------------------------------------------------------


def population_account(population: str) -> str:
    """Return the name of the account that everyone spends from."""
    return f"population:{population}"


def quota_account(population: str, analyst: str) -> str:
    """Return the name of an analyst's quota on a population."""
    return f"quota:{population}:{analyst}"


def list_accounts(population: str, holder: str | None) -> tuple[str, ...]:
    """Return a population's account, and with a holder their quota on it."""
    quota = () if holder is None else (quota_account(population, holder),)
    return (population_account(population), *quota)
