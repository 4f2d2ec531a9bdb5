"""Functions of texts: of a public list entry by entry, of free texts what all engines compute alike."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import TRUTH, FreeTexts, Listed, Numbers
from sfumato.curator.lower.conditions import match_pattern, require_text
from sfumato.curator.lower.lowered_value import LoweredValue, literal_number
from sfumato.curator.lower.typed_arguments import require_typed_integer, require_typed_text
from sfumato.engines.ingest import LONGEST_TEXT
from sfumato.engines.values import (
    Choose,
    Constant,
    Folded,
    Length,
    Lookup,
    Missing,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable


def measure_text(part: LoweredValue) -> LoweredValue:
    if isinstance(part.domain, FreeTexts):
        return part.derive_value(Length(require_text(part)), Numbers(0, LONGEST_TEXT))
    lengths = [len(word) for word in _words(part)]
    return part.derive_value(Lookup(part.value, tuple(lengths)), Numbers(min(lengths), max(lengths)))


def make_case_function(upper: bool) -> Callable[[LoweredValue], LoweredValue]:
    def of(part: LoweredValue) -> LoweredValue:
        if isinstance(part.domain, FreeTexts):
            return LoweredValue(Folded(require_text(part), upper), part.domain, part.constant, part.present)
        return _rewritten(part, [fold_ascii(word, upper=upper) for word in _words(part)])

    return of


def fold_ascii(word: str, *, upper: bool) -> str:
    """The letters of ASCII alone, as every engine can."""
    return "".join((each.upper() if upper else each.lower()) if each.isascii() else each for each in word)


def take_substring(part: LoweredValue, start: LoweredValue, size: LoweredValue | None = None) -> LoweredValue:
    first = require_typed_integer(start, "Where SUBSTRING starts", range(1, LONGEST_TEXT + 1)) - 1
    last = (
        LONGEST_TEXT
        if size is None
        else first + require_typed_integer(size, "How long it is", range(LONGEST_TEXT + 1))
    )
    return _rewritten(part, [word[first:last] for word in _words(part)])


def take_left(part: LoweredValue, size: LoweredValue) -> LoweredValue:
    return take_substring(part, literal_number(Fraction(1)), size)


def _rewritten(part: LoweredValue, words: list[str]) -> LoweredValue:
    different = tuple(dict.fromkeys(words))
    places = tuple(different.index(word) for word in words)
    if places == tuple(range(len(places))):
        return part.derive_value(part.value, Listed(different))
    return part.derive_value(Lookup(part.value, places), Listed(different))


def _words(part: LoweredValue) -> list[str]:
    """The texts of a public list."""
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], str):
        return [str(value) for value in part.domain.values]
    raise PolicyError(
        "SF-Q110", "This is asked of texts that are listed.", try_="sf.one_of(…) for the column, or LIKE"
    )


def make_text_test(before: str, after: str) -> Callable[[LoweredValue, LoweredValue], LoweredValue]:
    """STARTS_WITH, ENDS_WITH and CONTAINS, as LIKE of a text typed in."""

    def of(part: LoweredValue, piece: LoweredValue) -> LoweredValue:
        word = require_typed_text(piece)
        pattern = before + "".join(f"\\{each}" if each in "%_\\" else each for each in word) + after
        matches = match_pattern(part, pattern)
        return part.derive_value(
            Choose(matches, Constant(1), Choose(Missing(part.value), Constant(None), Constant(0))), TRUTH
        )

    return of
