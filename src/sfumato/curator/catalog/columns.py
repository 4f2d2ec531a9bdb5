"""Declared columns: what the steward promises about a column, how it is stored, and its domain.

The grid, the codes and every bound come from the declaration alone, never from the data or its types.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeGuard, overload

from sfumato.curator.catalog import domains
from sfumato.curator.catalog.calendar import count_periods, parse_moment
from sfumato.curator.catalog.domains import Listed, Numbers, Periods
from sfumato.engines import snapshot as preparation
from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_typed
from sfumato.privacy.bound_choice import BoundChoice
from sfumato.privacy.exact import Number, parse_exact, parse_positive

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Domain, Scalar
    from sfumato.engines.snapshot import StoredColumn

STEPS = 20
"""What is measured on a grid that sfumato chooses, as squares are, has about 2^STEPS steps from zero.

Rounding is then far below any noise. Privacy does not depend on it.
"""
_FINEST = 2**30
"""Without a declared step a column has the smallest power of ten that keeps its bounds within so many."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers within bounds, kept as multiples of a step. Made by `sf.between`."""

    low: Fraction
    high: Fraction
    step: Fraction
    """The distance between two values that are kept apart."""
    declared_step: bool = False
    """Whether the steward named the step, which says that values are multiples of it."""
    missing: Fraction | None = None
    constant: bool = False
    nullable: bool | None = None
    """Whether values may be missing; None if the steward did not say."""
    format: str = ""
    """How texts write the numbers; empty for plain numbers."""

    def __repr__(self) -> str:
        steps = (f"step={format_typed(self.step, 15)}",) if self.declared_step else ()
        return _write_call("between", (_type_value(self.low), _type_value(self.high), *steps), self)

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds in steps."""
        return _nearest_step(self.low, self.step), _nearest_step(self.high, self.step)

    def make_stored_column(self, name: str) -> StoredColumn:
        """Return how an engine stores the column."""
        missing = None if self.missing is None else _nearest_step(self.missing, self.step)
        return preparation.StoredGrid(name, *self.ends, self.step, missing, self.format)

    @property
    def domain(self) -> Domain:
        """What the stored integers stand for."""
        return Numbers(*self.ends, self.step, rounded=not self.declared_step)

    def to_dict(self) -> dict[str, Any]:
        ends = [str(self.low), str(self.high)]
        return {
            "between": ends,
            "step": str(self.step),
            "declared_step": self.declared_step,
        } | _write_rules(self)


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A column of dates, or of timestamps to the second, within bounds. Made by `sf.between`."""

    low: date
    high: date
    missing: date | None = None
    constant: bool = False
    nullable: bool | None = None
    """Whether values may be missing; None if the steward did not say."""
    format: str = ""
    """How texts write the dates; empty for ISO 8601."""

    def __repr__(self) -> str:
        return _write_call("between", (_type_value(self.low), _type_value(self.high)), self)

    @property
    def unit(self) -> str:
        """The unit of the stored integers: second for timestamps, day for dates."""
        return "second" if isinstance(self.low, datetime) else "day"

    def make_stored_column(self, name: str) -> StoredColumn:
        """Return how an engine stores the column."""
        missing = None if self.missing is None else self._place(self.missing)
        ends = self._place(self.low), self._place(self.high)
        return preparation.StoredTime(name, *ends, self.unit == "second", missing, self.format)

    @property
    def domain(self) -> Domain:
        """What the stored integers stand for."""
        return Periods(self._place(self.low), self._place(self.high), self.unit)

    def to_dict(self) -> dict[str, Any]:
        return {"during": [self.low.isoformat(), self.high.isoformat()]} | _write_rules(self)

    def _place(self, moment: date) -> int:
        return math.floor(count_periods(moment, self.unit))


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column of values out of a public list of texts, numbers or booleans. Made by `sf.one_of`."""

    values: tuple[Scalar, ...]
    missing: Scalar | None = None
    constant: bool = False
    nullable: bool | None = None
    """Whether values may be missing; None if the steward did not say."""

    def __repr__(self) -> str:
        return _write_call("one_of", map(_type_value, self.values), self)

    def make_stored_column(self, name: str) -> StoredColumn:
        """Return how an engine stores the column."""
        values: tuple[Any, ...] = tuple(float(number) for number in self.domain.numbers) or self.values
        return preparation.StoredCodes(
            name, values, None if self.missing is None else self.values.index(self.missing)
        )

    @property
    def domain(self) -> Listed:
        """What the stored integers stand for."""
        return Listed(self.values)

    def to_dict(self) -> dict[str, Any]:
        return {
            "one_of": [_write_value(value) for value in self.values],
            "kind": kind_of_value(self.values[0]),
        } | _write_rules(self)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of any texts: counted, and never shown unless discovered as a key. Made by `sf.text`."""

    constant: bool = False
    missing: None = None
    nullable: None = None

    def __repr__(self) -> str:
        return _write_call("text", (), self)

    def make_stored_column(self, name: str) -> StoredColumn:
        """Return how an engine stores the column."""
        return preparation.StoredText(name)

    @property
    def domain(self) -> Domain:
        """What the stored integers stand for."""
        return domains.FreeTexts()

    def to_dict(self) -> dict[str, Any]:
        return {"text": True} | _write_rules(self)


DeclaredColumn = NumberColumn | DateColumn | ListedColumn | TextColumn


@dataclass(frozen=True, slots=True)
class UnboundedColumn:
    """A column of numbers whose bounds are chosen when the table is registered. Made by `sf.between`."""

    choice: BoundChoice
    step: Number | None = None
    missing: Number | bool | None = None
    constant: bool = False
    format: str = ""

    def bounded_by(self, low: Fraction, high: Fraction) -> NumberColumn:
        """Return the column within these bounds, widened to hold what counts for a missing value."""
        said = self.missing is None or isinstance(self.missing, bool)
        instead = [] if said else [parse_exact(self.missing, "missing")]
        ends = min(low, *instead, high), max(low, *instead, high)
        rules: dict[str, Any] = {"missing": self.missing, "constant": self.constant, "format": self.format}
        column = between(*ends, self.step, **rules)
        if not isinstance(column, NumberColumn):
            raise AssertionError(column)
        return column


# ---- what the steward types --------------------------------------------------------------------------------


@overload
def between(
    low: BoundChoice,
    high: None = None,
    step: Number | None = None,
    *,
    missing: Number | bool | None = None,
    constant: bool = False,
    format: str = "",
) -> UnboundedColumn: ...


@overload
def between(
    low: Number | date | str,
    high: Number | date | str,
    step: Number | None = None,
    *,
    missing: Number | date | str | bool | None = None,
    constant: bool = False,
    format: str = "",
) -> NumberColumn | DateColumn: ...


def between(
    low: Number | date | str | BoundChoice,
    high: Number | date | str | None = None,
    step: Number | None = None,
    *,
    missing: Number | date | str | bool | None = None,
    constant: bool = False,
    format: str = "",  # noqa: A002
) -> NumberColumn | DateColumn | UnboundedColumn:
    """Promise that a column holds numbers, dates or timestamps from `low` to `high`.

    Values outside are moved to the nearer bound. `sf.between(sf.choose(epsilon=0.05))` has both bounds chosen
    privately when the table is registered.

    Numbers are kept as multiples of `step`, as 0.01 for prices. Without one, the step is a power of ten,
    chosen from the bounds so that rounding is far below any noise. Dates are kept to the day, timestamps to
    the second in UTC. `missing` counts in place of a missing value. `missing=False` promises that none is
    missing, and `missing=True` that some may be, although the source declares the column NOT NULL. `constant`
    says that all rows of a unit have one value; the unit's first row decides. `format` names how texts write
    numbers ("1,234.56" or "1.234,56") or dates ("31/12/2024", "12/31/2024", "31/12/24", "12/31/24",
    "2024/12/31", "20241231", "31 Dec 2024" or "Dec 31 2024"); by default it is found from the column.
    """
    low, high, missing = _read_text_date(low), _read_text_date(high), _read_text_date(missing)
    if isinstance(low, BoundChoice) or isinstance(high, BoundChoice):
        return _between_chosen(
            low, high, step, missing, bool(constant), _known_format(format, NUMBER_FORMATS)
        )
    if _is_time(low) or _is_time(high):  # a date beside a number is refused there
        return _between_dates(low, high, step, missing, constant, _known_format(format, DATE_FORMATS))
    if high is None:
        raise UsageError("SF-C104", "between takes a lower and an upper bound.", try_="sf.between(0, 110)")
    bottom, top = parse_exact(low, "low"), parse_exact(high, "high")
    if not bottom < top:
        raise _crossed_bounds(low, high)
    size = _decimal_step(max(abs(bottom), abs(top))) if step is None else _require_step(step)
    nullable, missing = _split_missing(missing, bottom)
    instead = None if missing is None else parse_exact(missing, "missing")
    written = _known_format(format, NUMBER_FORMATS)
    promise = NumberColumn(bottom, top, size, step is not None, instead, bool(constant), nullable, written)
    _require_inside(missing is None or bottom <= (instead or 0) <= top)
    ends = promise.ends
    # Up to 2^50 steps a double tells all multiples apart, and is divided by the step without doubt.
    if max(map(abs, ends)) > 2**50 or ends[0] == ends[1]:
        raise UsageError(
            "SF-C104",
            "This step does not suit these bounds.",
            why="a bound must be at most 2^50 steps from zero, and the bounds must differ by a step",
            try_=f"between({low}, {high})",
        )
    return promise


def one_of(
    *values: str | bool | Number, missing: str | bool | Number | None = None, constant: bool = False
) -> ListedColumn:
    """Promise the only values a column can have. Any other value counts as missing.

    `missing`, one of the values, counts in place of a missing value. `missing=False` promises that every row
    has one of the values; in a list of booleans it is the value False. `constant` says that all rows of a
    unit have one value; the unit's first row decides.
    """
    if not values:
        raise UsageError("SF-C107", "one_of needs at least one value.", try_='sf.one_of("A", "B")')
    scalars = tuple(_require_scalar(value) for value in values)
    if len({kind_of_value(scalar) for scalar in scalars}) > 1:
        raise UsageError(
            "SF-C107",
            "The values of one_of must all be texts, all numbers or all booleans.",
            try_='sf.one_of("A", "1"), or sf.one_of(1, 2)',
        )
    if len(set(scalars)) < len(scalars):
        raise UsageError("SF-C107", "one_of lists a value twice.")
    nullable, missing = (
        (None, missing) if isinstance(scalars[0], bool) else _split_missing(missing, scalars[0])
    )
    instead = None if missing is None else _require_scalar(missing)
    _require_inside(instead is None or instead in scalars)
    return ListedColumn(scalars, instead, bool(constant), nullable)


def text(*, constant: bool = False) -> TextColumn:
    """Promise a text. It can be counted, tested with = and LIKE, and grouped by keys that are discovered."""
    return TextColumn(bool(constant))


def column_from_dict(fields: dict[str, Any]) -> DeclaredColumn:
    """Return a column from the fields of the catalog file."""
    rules: dict[str, Any] = {"constant": fields.get("constant", False)}
    missing = fields.get("missing")
    # The keys of the catalog file: they stay what they are, whatever the classes are called.
    if "text" in fields:
        return TextColumn(**rules)
    rules |= {"nullable": fields.get("nullable")}
    written: dict[str, Any] = {"format": fields.get("format", "")}
    if "during" in fields:
        first, last = map(_read_moment, fields["during"])
        return DateColumn(first, last, None if missing is None else _read_moment(missing), **rules, **written)
    if "between" in fields:
        low, high = map(Fraction, fields["between"])
        instead = None if missing is None else Fraction(missing)
        step = Fraction(fields["step"])
        return NumberColumn(low, high, step, fields["declared_step"], instead, **rules, **written)
    read = Fraction if fields["kind"] == "number" else lambda value: value
    return ListedColumn(
        tuple(map(read, fields["one_of"])), None if missing is None else read(missing), **rules
    )


def kind_of_value(value: Any) -> str:
    """Return the word people use for a value's type."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    return "date" if isinstance(value, date) else "number"


# ---- parts -------------------------------------------------------------------------------------------------


def require_values(column: DeclaredColumn) -> DeclaredColumn:
    """Return a column with the promise that no value is missing, as `missing=False` declares it."""
    match column:
        case NumberColumn():
            return replace(column, missing=column.low, nullable=False)
        case DateColumn():
            return replace(column, missing=column.low, nullable=False)
        case ListedColumn(values):
            instead = False if isinstance(values[0], bool) and False in values else values[0]
            return replace(column, missing=instead, nullable=False)
    return column


def with_format(column: DeclaredColumn, written: str) -> DeclaredColumn:
    """Return a column of numbers or dates whose texts are written in this format."""
    match column:
        case NumberColumn():
            return replace(column, format=_known_format(written, NUMBER_FORMATS))
        case DateColumn():
            return replace(column, format=_known_format(written, DATE_FORMATS))
    return column


def find_format(column: DeclaredColumn | UnboundedColumn) -> str:
    """Return how texts write the values of a column; empty for plain numbers, ISO dates and other values."""
    return "" if isinstance(column, ListedColumn | TextColumn) else column.format


def _split_missing(missing: Any, stand_in: Any) -> tuple[bool | None, Any]:
    """Return whether values may be missing, and what counts in place of a missing one.

    With the promise that none is missing, `stand_in` counts for those that are missing all the same.
    """
    if not isinstance(missing, bool):
        return None, missing
    return missing, None if missing else stand_in


def _known_format(name: str, known: Collection[str]) -> str:
    if name and name not in known:
        raise UsageError(
            "SF-C114",
            "This format is not known for such a column.",
            got=str(name)[:40],
            accepted=", ".join(f'"{each}"' for each in known),
            try_='sf.between(date(2020, 1, 1), date(2024, 12, 31), format="31/12/2024")',
        )
    return name


def _between_chosen(
    low: Any, high: Any, step: Any, missing: Any, constant: bool, written: str
) -> UnboundedColumn:
    """Return a column whose bounds are to be chosen; refuse one bound, and dates, which are not chosen."""
    if not isinstance(low, BoundChoice) or high is not None or _is_time(missing):
        raise UsageError(
            "SF-C114",
            "Both bounds of a column of numbers are chosen together, and none of a column of dates.",
            try_="sf.between(sf.choose(epsilon=0.05)), or sf.between(date(2020, 1, 1), date(2024, 12, 31))",
        )
    return UnboundedColumn(low, step, missing, constant, written)


def _write_rules(promise: DeclaredColumn) -> dict[str, Any]:
    """Return the fields for missing values and constant columns, where they are declared."""
    missing = {} if promise.missing is None else {"missing": _write_value(promise.missing)}
    nullable = {} if promise.nullable is None else {"nullable": promise.nullable}
    written = {"format": find_format(promise)} if find_format(promise) else {}
    return missing | nullable | written | ({"constant": True} if promise.constant else {})


def _write_call(name: str, values: Iterable[str], promise: DeclaredColumn) -> str:
    """Return a declaration as it is typed."""
    rules = {
        "missing": False if promise.nullable is False else promise.missing,
        "constant": promise.constant or None,
        "format": find_format(promise) or None,
    }
    named = (f"{rule}={_type_value(value)}" for rule, value in rules.items() if value is not None)
    return f"{name}({', '.join([*values, *named])})"


def _type_value(value: Scalar) -> str:
    return format_typed(value, 15) if isinstance(value, Fraction) else repr(value)


def _write_value(value: Scalar) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Fraction) else value


def _read_moment(text: str) -> date:
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _read_text_date(bound: Any) -> Any:
    """Return the date or timestamp that an ISO text writes; refuse other texts, which bound nothing."""
    if not isinstance(bound, str):
        return bound
    moment = parse_moment(bound)
    if moment is None:
        raise UsageError(
            "SF-C104",
            "The bounds of between are numbers, dates or timestamps.",
            got="a text that is no date such as 2024-01-31",
            try_='sf.between(0, 110), sf.between("2020-01-01", "2024-12-31"), or sf.one_of("A", "B")',
        )
    return moment


def _is_time(value: Any) -> TypeGuard[date]:
    return isinstance(value, date)


def _between_dates(low: Any, high: Any, step: Any, missing: Any, constant: bool, written: str) -> DateColumn:
    nullable, missing = _split_missing(missing, low)
    given = [low, high] + ([] if missing is None else [missing])
    # A datetime is a date to Python, so types are compared and not classes.
    if step is not None or not all(map(_is_time, given)) or len({type(each) for each in given}) > 1:
        raise UsageError(
            "SF-C104",
            "between takes two dates or two timestamps, and no step with them.",
            got=f"between({low}, {high})",
            try_="sf.between(date(2020, 1, 1), date(2024, 12, 31))",
        )
    bottom, top = _in_utc(low), _in_utc(high)
    instead = None if missing is None else _in_utc(missing)
    if not bottom < top:
        raise _crossed_bounds(low, high)
    _require_inside(instead is None or bottom <= instead <= top)
    return DateColumn(bottom, top, instead, bool(constant), nullable, written)


def _in_utc(moment: date) -> date:
    """Return a timestamp in UTC, to the second and without a zone; one without a zone is in UTC already."""
    if not isinstance(moment, datetime):
        return moment
    naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return naive.replace(microsecond=0)


def _crossed_bounds(low: object, high: object) -> UsageError:
    return UsageError(
        "SF-C104",
        "The lower bound of between must be below its upper bound.",
        got=f"between({low}, {high})",
        try_="the smaller bound first",
    )


def _require_inside(inside: bool) -> None:
    if not inside:
        raise UsageError(
            "SF-C114",
            "missing must be one of the values that the column may have.",
            try_="a value within the bounds or of the list, or missing=False if no value is missing",
        )


def _require_scalar(value: Any) -> Scalar:
    if isinstance(value, str | bool):  # before numbers: to Python a boolean is one
        return value
    if isinstance(value, Collection):
        raise UsageError(
            "SF-C107",
            "one_of takes the values one by one, not as a list.",
            try_='sf.one_of("A", "B"), or sf.one_of(*values)',
        )
    # Sources hold doubles: a listed number that is none would never be found in them.
    number = parse_exact(value, "a value of one_of")
    if abs(number) > 2**53 or parse_exact(float(number), "a value of one_of") != number:
        raise UsageError(
            "SF-C107", "A number of one_of has more digits than a double can hold.", got=str(value)
        )
    return number


def _nearest_step(value: Fraction, step: Fraction) -> int:
    return math.floor(value / step + Fraction(1, 2))


def choose_exponent(magnitude: Fraction) -> int:
    """Return the exponent of the smallest step that keeps this magnitude within 2^STEPS steps."""
    whole = max(magnitude.numerator, 1)
    exponent = whole.bit_length() - magnitude.denominator.bit_length() + 1
    # Bit lengths give the exponent to within one or two; the rest is taken off exactly.
    while magnitude <= Fraction(2) ** (exponent - 1):
        exponent -= 1
    return exponent - STEPS


def _decimal_step(magnitude: Fraction) -> Fraction:
    """Return the smallest power of ten that keeps this magnitude below 2^30 steps."""
    digits = math.floor(math.log10(_FINEST) - math.log10(magnitude)) + 1
    # The logarithm gives the digits to within one or two; the rest is taken off exactly.
    while magnitude * Fraction(10) ** digits >= _FINEST:
        digits -= 1
    return Fraction(10) ** -digits


def _require_step(step: Number) -> Fraction:
    size = parse_positive(step, "step")
    if max(size.numerator, size.denominator) > 2**50:
        raise UsageError(
            "SF-C104",
            "The numerator and the denominator of step must be at most 2^50.",
            got=str(step),
            try_="step=0.01",
        )
    return size
