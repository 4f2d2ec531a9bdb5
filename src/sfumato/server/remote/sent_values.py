"""Bodies of requests about frames, models, jobs and streams; what is open is decoded by a closed list."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from sfumato.server.wire import ExactNumber, QuoteRequestBody, SpendBody, WireBody

MOST_DRAWN = 1_000_000
"""Synthetic rows that are drawn at a time."""


def require_text(value: Any) -> Any:
    """Refuse what cannot be written as UTF-8, or is nested too deeply to be read again."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise ValueError("no valid text") from None
    return value


PlainList = Annotated[list[Any], AfterValidator(require_text)]
PlainDict = Annotated[dict[str, Any], AfterValidator(require_text)]
PlainValue = Annotated[Any, AfterValidator(require_text)]
ShortText = Annotated[StrictStr, Field(max_length=1_000)]
ColumnNames = Annotated[list[ShortText], Field(max_length=1_000)]
JobKey = Annotated[StrictStr, Field(pattern=r"^[\x20-\x7e]{1,150}$")]
JobName = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Confidence = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[StrictInt, Field(ge=1, le=10**6)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Split = tuple[Annotated[float, Field(gt=0, lt=1)], Literal["train", "test"]]


class RowsBody(WireBody):
    """Rows of a table: the steps of a frame that begins with it."""

    table: ShortText
    steps: PlainList = Field(max_length=50)


Rows = ShortText | RowsBody


class DescribeBody(WireBody):
    """A frame whose columns are to be described."""

    question: RowsBody


class AtLevelBody(QuoteRequestBody):
    """A question, what it costs, and the confidence of its intervals."""

    confidence: Confidence
    place: StrictInt | None = Field(None, ge=0, le=1000)
    """Which of the questions is meant, where several were asked together."""
    all_groups: bool = False
    """Whether groups that are not significant are among those of the answer."""


class ModelBody(WireBody):
    """An estimator or a generator of the closed list, by its name and parameters."""

    name: ShortText
    parameters: PlainDict = Field(default_factory=dict, max_length=100)


class FitFields(WireBody):
    """What a model is fitted on."""

    model: ModelBody
    table: Rows
    features: ColumnNames = Field(default_factory=list)
    target: ShortText | None = None
    columns: ColumnNames = Field(default_factory=list)
    rows_per_unit: Count | None = None
    split: Split | None = None


class FitJobBody(FitFields):
    """A fit, as a job."""

    kind: Literal["fit"]
    key: JobKey


class SampleJobBody(WireBody):
    """Rows of a generator that was fitted before."""

    kind: Literal["sample"]
    key: JobKey
    model: JobName
    rows: StrictInt = Field(ge=1, le=MOST_DRAWN)
    seed: Seed | None = None
    row_key: ShortText | None = None
    labels: ShortText | StrictInt | float | None = None


class EvaluateJobBody(WireBody):
    """An evaluation of an estimator, as a job."""

    kind: Literal["evaluate"]
    target: ShortText
    bins: Annotated[StrictInt, Field(ge=1, le=1_000)] | None = None
    key: JobKey
    model: JobName
    table: Rows
    epsilon: ExactNumber | None = None
    delta: ExactNumber | None = None
    rho: ExactNumber | None = None
    split: Split | None = None
    confidence: Confidence | None = None


JobRequestBody = Annotated[FitJobBody | SampleJobBody | EvaluateJobBody, Field(discriminator="kind")]


class StreamBody(WireBody):
    """What a stream is: the arguments of `s.stream`, and what all its ticks may cost together."""

    table: ShortText
    time: ShortText
    measure: ShortText | PlainDict
    horizon: Count
    start: ShortText | StrictInt | None = None
    by: ColumnNames = Field(default_factory=list)
    where: ShortText | None = None
    participations: Count = 1
    separation: Count = 1
    contribution: Count = 1
    window: Count | None = None
    blocks: bool = False
    spend: SpendBody


class StreamRunBody(WireBody):
    """A stream, and up to which number of ticks it is to be released."""

    stream: StreamBody
    until: Count | None = None


class StreamReadBody(WireBody):
    """A stream, and how its ticks are put together."""

    stream: StreamBody
    window: Count | None = None
    decay: ExactNumber | None = None
