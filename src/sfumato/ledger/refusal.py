"""What people read when an account does not admit a question. It is built from public numbers only."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import BudgetError, LedgerError, PolicyError
from sfumato.errors.numbers import format_number, pad_decimals
from sfumato.ledger.api import parse_account
from sfumato.privacy.account import NAT, SIDE, left

if TYPE_CHECKING:
    from sfumato.ledger.api import Charge
    from sfumato.ledger.books import AccountState
    from sfumato.privacy.account import Cost


def shortage_error(charge: Charge, name: str, account: AccountState) -> BudgetError:
    """Return the error for a question that costs more than is left on the account called `name`."""
    population, analyst = parse_account(name)
    asked, remains = _compare(charge.cost, account)
    on = f" on '{charge.about['table']}'" if "table" in charge.about else ""
    epsilon = left(account.caps, account.spent).epsilon
    smaller = f"epsilon={_round_down(epsilon).replace(',', '')} or less; " if epsilon else ""
    if analyst is None:
        sentence = f"Not enough privacy budget for this query{on}."
        hint = f"{smaller}earlier answers stay free"
        return BudgetError("SF-B101", sentence, asked=asked, left=f"{remains} for {population}", try_=hint)
    sentence = f"Not enough quota for this query{on}."
    whose = f"{remains} for analyst '{analyst}'"
    hint = f'{smaller}ask the steward for more: s.request(epsilon=0.5, reason="…"); earlier answers stay free'
    return BudgetError("SF-B102", sentence, asked=asked, left=whose, try_=hint)


def other_lab_error() -> LedgerError:
    """Return the error for a ledger that belongs to another lab than the one that opens it."""
    return LedgerError(
        "SF-L121",
        "This ledger belongs to another lab, so nothing is answered.",
        why="its answers are about other people's rows, and its budgets are theirs",
        try_="put the lab's own ledger and ranking.key back; or for a new lab, another place for its ledger",
    )


def unknown_account_error(name: str) -> PolicyError:
    """Return the error for an account that was never opened."""
    population, analyst = parse_account(name)
    if analyst is None:
        return PolicyError(
            "SF-B103", f"No budget was ever set for '{population}'.", try_="lab.register(…, budget=…)"
        )
    return PolicyError(
        "SF-B103",
        f"'{analyst}' has no quota for '{population}'.",
        try_=f"lab.grant({analyst!r}, epsilon=…)",
    )


def other_neighbours_error(name: str, account: AccountState, got: str | None) -> PolicyError:
    """Return the error for a charge that is priced for other neighbours than those of its account."""
    return PolicyError(
        "SF-N303",
        "This account is counted for other neighbours, so the charge cannot be added to it.",
        account=name,
        known=str(account.neighbours),
        got=got or "not named",
        try_="an account of its own, or a price for the neighbours of this one",
    )


def _compare(cost: Cost, account: AccountState) -> tuple[str, str]:
    """Return what was asked and what is left, on the scale that refused, so that asked is the larger."""
    # Every charge needs side δ to be left. Beyond that one filter is enough, pure ε or any Rényi order.
    spent, caps = account.spent, account.caps
    if spent.side + cost.side > caps.side:
        asked, over, cap = (Fraction(n, SIDE) for n in (cost.side, caps.side - spent.side, caps.side))
        return f"side δ = {_round_up(asked)}", f"side δ = {_round_down(over)} of {format_number(cap)}"
    if cost.pure is not None:
        remains = _round_down(left(caps, spent).epsilon)
        asked = Fraction(cost.pure, NAT)
        whole = pad_decimals(format_number(account.budget.epsilon), 2)
        return f"ε = {pad_decimals(_round_up(asked), 2)}", f"ε = {pad_decimals(remains, 2)} of {whole}"
    return _compare_shares(cost, account)


def _compare_shares(cost: Cost, account: AccountState) -> tuple[str, str]:
    """Return what was asked and what is left as percentages of the cap that came closest to admitting."""
    known = (account.spent + cost).gaussian is not None
    before, added = (
        account.caps.list_filters(replace(each, pure=None, gaussian=each.gaussian if known else None))
        for each in (account.spent, cost)
    )
    filters = [
        (Fraction(used, cap), Fraction(more, cap))
        for (used, cap), (more, _) in zip(before, added, strict=True)
    ]
    if not filters:
        return "noise without a pure ε", f"a budget of pure ε = {format_number(account.budget.epsilon)}"
    used, more = min(filters, key=sum)
    return (
        f"{_round_up(100 * more)} %",
        f"{_round_down(100 * max(1 - used, Fraction(0)))} % of {account.budget!r}",
    )


def _round_up(value: Fraction) -> str:
    return _format_digits(value, ROUND_CEILING)


def _round_down(value: Fraction) -> str:
    return _format_digits(value, ROUND_FLOOR)


def _format_digits(value: Fraction, rounding: str) -> str:
    """Return four digits, rounded so that what is left never looks enough for what was asked."""
    rounded = Context(prec=4, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator))
    return format_number(float(rounded))
