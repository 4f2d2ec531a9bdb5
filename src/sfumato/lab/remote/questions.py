"""One question to a lab on another machine: what it would cost, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.description import TableDescription
    from sfumato.curator.payer import Spending
    from sfumato.lab.bounds.tuning import PickedBounds
    from sfumato.privacy.exact import Number


class Asks(Protocol):
    """Sends questions to a server."""

    def ask_quote(self, question: Mapping[str, Any], spend: Mapping[str, Any]) -> Any:
        """Return price and expected error."""

    def ask_release(self, question: Mapping[str, Any], spend: Mapping[str, Any], key: str | None) -> Any:
        """Charge, then answer."""

    def ask_tune(self, question: Mapping[str, Any], said: Mapping[str, Any], key: str | None) -> Any:
        """Charge, then return the bounds that were picked, and the question with them."""

    def describe(self, question: Mapping[str, Any]) -> TableDescription:
        """Return what is declared about the rows of a frame."""


@dataclass(frozen=True, slots=True, repr=False)
class RemoteQuery:
    """One question. `quote` says what it would cost, `release` pays and answers."""

    asks: Asks
    question: Mapping[str, Any]
    text: str

    def quote(self, **spending: Unpack[Spending]) -> Any:
        """Return price and expected error, from public facts only.

        Say what to spend in one way: epsilon, epsilon and delta, rho, share of the budget, or the error
        wished for, such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages.
        """
        return self.asks.ask_quote(self.question, encode_spending(spending))

    def release(
        self, *, key: str | None = None, include_empty: bool = False, **spending: Unpack[Spending]
    ) -> Any:
        """Charge, then answer. The same question released before comes back for free.

        With `include_empty`, groups are shown whether they are significant or not. Each call has a key of its
        own unless one is given. If the connection is lost, the request is sent again with the same key: it
        gives the same answer for one charge.
        """
        found = self.asks.ask_release(self.question, encode_spending(spending), key)
        return found.all_groups() if include_empty else found

    def bounded(self, *, groups: int = 1, rows: int = 1) -> RemoteQuery:
        """Return the same question, of which one unit counts in so many groups with so many rows in each."""
        bounds = {"groups": parse_whole(groups, "groups"), "rows": parse_whole(rows, "rows")}
        text = f"{self.text} bounded(groups={groups}, rows={rows})"
        return RemoteQuery(self.asks, {**self.question, "bounded": bounds}, text)

    def clipped(self, limit: Number, *, groups: int = 1) -> RemoteQuery:
        """Return the same question for a sum, to which a unit adds at most `limit` in each of its groups."""
        most = encode_amount(parse_positive(limit, "limit"))
        clip = {"limit": most, "groups": parse_whole(groups, "groups")}
        text = f"{self.text} clipped({limit}, groups={groups})"
        return RemoteQuery(self.asks, {**self.question, "clipped": clip}, text)

    def tune(
        self, *, epsilon: Number, for_epsilon: Number | None = None, key: str | None = None
    ) -> RemoteTunedQuery:
        """Charge ε for counts of units, and return this question with the bounds that suit it best.

        They are picked as in a lab; tuning the same question again costs nothing.
        """
        said = encode_spending({"epsilon": epsilon, "for_epsilon": for_epsilon})
        picked, question = self.asks.ask_tune(self.question, said, key)
        return RemoteTunedQuery(self.asks, question, f"{self.text} tuned", picked)

    def __repr__(self) -> str:
        return f"{self.text!r}; .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"


@dataclass(frozen=True, slots=True, repr=False)
class RemoteTunedQuery(RemoteQuery):
    """A question with bounds that were picked for it privately; `picked` says which, and what they lose."""

    picked: PickedBounds

    def __repr__(self) -> str:
        return f"{self.picked} ({self.picked.bias})\n{RemoteQuery.__repr__(self)}"


def list_questions(questions: Any) -> list[Any]:
    """Return questions to be asked together: texts in SQL and questions of a session on a server."""
    from sfumato.lab.several.together import no_list_error, no_single_question_error

    if isinstance(questions, str) or not hasattr(questions, "__iter__"):
        raise no_list_error()
    found = list(questions)
    if any(not isinstance(each, str | RemoteQuery) for each in found):
        raise no_single_question_error()
    return found


def encode_spending(spending: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed, ready for JSON: fractions are texts, so that they stay exact."""
    return {name: encode_amount(value) for name, value in spending.items() if value is not None}


def encode_amount(value: Any) -> Any:
    """Return a number, or numbers by name, ready for JSON and exact."""
    if isinstance(value, dict):
        return {str(name): encode_amount(each) for name, each in value.items()}
    if isinstance(value, Fraction | Decimal):
        return str(Fraction(value))
    return value.item() if hasattr(value, "item") else value
