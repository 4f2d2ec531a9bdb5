"""Requests and answers as JSON: what people may send, and how results of a session are written.

Numbers come as JSON numbers, read by their shortest decimal form, or as texts such as "0.1" and "1/3"; both
are exact. Nothing here decides anything about privacy.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

from sfumato.curator.catalog.description import PublicFacts
from sfumato.errors import UsageError
from sfumato.server.remote.answer_forms import write_form

if TYPE_CHECKING:
    from sfumato.curator.payer import Spending

MOST_SQL = 20_000
"""Longest question in SQL, in characters."""

_DIGITS = r"[0-9]{1,40}"
NumberText = Annotated[
    StrictStr,
    Field(pattern=rf"^({_DIGITS}(\.{_DIGITS})?([eE][+-]?[0-9]{{1,2}})?|{_DIGITS}/{_DIGITS})$", max_length=90),
]
ExactNumber = StrictInt | StrictFloat | NumberText
Key = Annotated[StrictStr, Field(min_length=1, max_length=150)]


class WireBody(BaseModel):
    """A body that people send: fields that are not known are refused, so that no wish is ignored."""

    model_config = ConfigDict(extra="forbid")


class BoundedBody(WireBody):
    """In how many groups a unit counts, and with how many rows in each."""

    groups: StrictInt = Field(1, ge=1)
    rows: StrictInt = Field(1, ge=1)


class ClippedBody(WireBody):
    """What a unit adds to the only sum of a question, at most, and in how many groups."""

    limit: ExactNumber
    groups: StrictInt = Field(1, ge=1)


class TunedBody(WireBody):
    """The bounds that /api/tune picked for a question, named by what they were bought with."""

    epsilon: ExactNumber = Field(examples=[0.05])
    for_epsilon: ExactNumber | None = Field(None, examples=[0.5])


class SingleQuestionBody(WireBody):
    """A question: SQL, or the steps of a frame that begins with a table; and how much of a unit counts."""

    sql: StrictStr | None = Field(None, max_length=MOST_SQL, examples=["SELECT COUNT(*) AS n FROM visits"])
    bounded: BoundedBody | None = None
    clipped: ClippedBody | None = None
    tuned: TunedBody | None = None
    table: StrictStr | None = Field(None, max_length=200)
    graph: StrictStr | None = Field(default=None, max_length=200)
    steps: list[Any] | None = Field(None, max_length=50)


class QuestionBody(SingleQuestionBody):
    """A question, or several that are asked together, for one charge."""

    together: list[SingleQuestionBody] | None = Field(default=None, max_length=1000)


class SpendBody(WireBody):
    """What a question may cost, said in one way: epsilon, epsilon and delta, rho, share, risk or error."""

    epsilon: ExactNumber | None = Field(None, examples=[0.1])
    delta: ExactNumber | None = None
    rho: ExactNumber | None = None
    share: ExactNumber | None = None
    risk: ExactNumber | None = None
    error: dict[str, ExactNumber] | None = Field(None, max_length=100)
    given: dict[str, StrictInt] | None = Field(None, max_length=10)
    clip: Literal["auto"] | None = None


class QuoteRequestBody(WireBody):
    """What is to be priced."""

    question: QuestionBody
    spend: SpendBody


class PlanRequestBody(WireBody):
    """Questions in SQL that are to be priced together, each at the same spend."""

    questions: list[Annotated[StrictStr, Field(max_length=MOST_SQL)]] = Field(max_length=100)
    spend: SpendBody


class ReleaseRequestBody(QuoteRequestBody):
    """What is to be charged and answered. With a key, sending it again is charged once."""

    key: Key | None = None


class TuneRequestBody(TunedBody):
    """A question whose bounds are to be picked, for this ε. With a key, sending it again is charged once."""

    question: QuestionBody
    key: Key | None = None


class RefineRequestBody(WireBody):
    """An answer that is asked for again with fresh noise, to be put together with it."""

    entry: StrictInt = Field(ge=0, le=2**53)
    spend: SpendBody
    key: Key | None = None


class AnswerBody(BaseModel):
    """Something that the server says; fields of later versions may stand beside these."""

    model_config = ConfigDict(extra="allow")


class QuoteBody(AnswerBody):
    """The price of a question and its expected error."""

    admitted: bool
    free: bool
    table: str | None = None
    unit: str | None = None
    price: str | None = None
    epsilon: float | None = None
    share: float | None = None
    left: float | None = None
    left_after: float | None = None
    expected_error: dict[str, float | None] | None = None
    picked: dict[str, str] | None = None
    bias: list[str] | None = None
    slot: float | None = None
    text: str


class ReleaseBody(AnswerBody):
    """An answer with its intervals and its receipt. Its fields depend on the kind of question."""

    entry: int | None = None
    columns: dict[str, list[Any]] | None = None
    interval: dict[str, list[Any]] | None = None
    bias: list[str] | None = None
    hidden_groups: int | None = None
    receipt: dict[str, Any] | None = None
    text: str


class PickedBody(AnswerBody):
    """What was picked for a question and what that leaves out, and the question with these bounds."""

    picked: dict[str, Any]
    question: dict[str, Any]
    entry: int
    text: str


class TableBody(AnswerBody):
    """What is declared about a table. All of it is public to those who may ask about it."""

    table: str
    protects: str
    population: str | None
    rows: int | None
    snapshot: int
    columns: list[dict[str, Any]]


class TablesBody(AnswerBody):
    """The tables that the visitor may ask about."""

    tables: list[TableBody]


class FactsBody(AnswerBody):
    """Plain facts."""


def parse_number(typed: float | str) -> "int | float | Fraction":
    """Return a number exactly as it was sent."""
    if not isinstance(typed, str):
        return typed
    try:
        return Fraction(typed)
    except ZeroDivisionError:
        raise UsageError("SF-N101", "A fraction has a denominator above 0.", got=typed) from None


def parse_spending(spend: SpendBody) -> "Spending":
    """Return a spend as a session takes it: only what was sent, with exact numbers."""
    typed: dict[str, Any] = {}
    for name, value in spend:
        if isinstance(value, dict) and name == "error":
            typed[name] = {key: parse_number(each) for key, each in value.items()}
        elif value is not None:
            typed[name] = value if name in ("given", "clip") else parse_number(value)
    return cast("Spending", typed)


def write_plain(value: Any) -> Any:
    """Return a result ready for JSON: numbers that JSON has no form for are null."""
    if isinstance(value, dict):
        return {str(name): write_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [write_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Fraction):
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def write_quote(quote: Any) -> dict[str, Any]:
    """Return a quote of any kind, ready for JSON."""
    said = {} if not hasattr(quote, "to_dict") else quote.to_dict()
    if isinstance(quote, PublicFacts):
        said = {"facts": said}
    known = {"admitted": bool(getattr(quote, "admitted", True)), "free": bool(getattr(quote, "free", True))}
    form = write_form(quote, write_quote) if isinstance(quote, PublicFacts) else {}
    return cast("dict[str, Any]", write_plain(said | known | form | {"text": str(quote)}))


def write_release(release: Any) -> dict[str, Any]:
    """Return an answer of any kind, ready for JSON, with the entry of its charge."""
    if isinstance(release, tuple):
        return _write_together(release)
    said = write_plain(release.to_dict() if hasattr(release, "to_dict") else {})
    if isinstance(release, PublicFacts):
        said = {"facts": said}
    if "columns" not in said and hasattr(release, "to_arrow"):
        said["columns"] = write_plain(release.to_arrow().to_pydict())
    receipts = getattr(release, "receipts", ())
    receipt = getattr(release, "receipt", None) or (receipts[-1] if receipts else None)
    form = write_plain(write_form(release, write_release))
    return {"entry": None if receipt is None else receipt.entry, **said, **form, "text": str(release)}


def _write_together(releases: tuple[Any, ...]) -> dict[str, Any]:
    """Return the answers of questions that were asked together, with the receipt of their one charge."""
    answers = [write_release(each) for each in releases]
    known = {name: answers[0][name] for name in ("entry", "receipt")}
    bias = list(dict.fromkeys(text for each in answers for text in each["bias"]))
    text = "\n\n".join(each["text"] for each in answers)
    return {**known, "form": "together", "answers": answers, "bias": bias, "text": text}
