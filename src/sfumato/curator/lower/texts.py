"""Functions of texts. Listed texts are computed here, entry by entry; free texts by the engine.

Of free texts only what all engines compute alike is on the list.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import TRUTH, FreeTexts, Listed, Numbers
from sfumato.curator.lower.conditions import match_pattern, require_text
from sfumato.curator.lower.lowered_value import (
    LoweredValue,
    literal_number,
    require_typed_integer,
    require_typed_text,
)
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
    """Return LENGTH of a text, in characters."""
    if isinstance(part.domain, FreeTexts):
        return part.derive_value(Length(require_text(part)), Numbers(0, LONGEST_TEXT))
    lengths = [len(word) for word in _listed_texts(part, "LENGTH needs a text.")]
    return part.derive_value(Lookup(part.value, tuple(lengths)), Numbers(min(lengths), max(lengths)))


def make_case_function(name: str, *, upper: bool) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function UPPER or LOWER."""

    def change_case(part: LoweredValue) -> LoweredValue:
        if isinstance(part.domain, FreeTexts):
            return LoweredValue(Folded(require_text(part), upper), part.domain, part.constant, part.present)
        return rewrite_list(
            part, [fold_ascii(word, upper=upper) for word in _listed_texts(part, f"{name} needs a text.")]
        )

    return change_case


def fold_ascii(word: str, *, upper: bool) -> str:
    """Return a text with its ASCII letters in one case: engines disagree about all other letters."""
    return "".join((each.upper() if upper else each.lower()) if each.isascii() else each for each in word)


def take_substring(part: LoweredValue, start: LoweredValue, size: LoweredValue | None = None) -> LoweredValue:
    """Return SUBSTRING of a listed text; the start counts from 1."""
    # Every text is cut to LONGEST_TEXT when it is prepared, so no piece lies beyond it.
    first = require_typed_integer(start, "The start of SUBSTRING", range(1, LONGEST_TEXT + 1)) - 1
    last = (
        LONGEST_TEXT
        if size is None
        else first + require_typed_integer(size, "The length of SUBSTRING and LEFT", range(LONGEST_TEXT + 1))
    )
    return rewrite_list(
        part,
        [
            word[first:last]
            for word in _listed_texts(part, "SUBSTRING and LEFT need a column of listed texts.")
        ],
    )


def take_left(part: LoweredValue, size: LoweredValue) -> LoweredValue:
    """Return LEFT of a listed text."""
    return take_substring(part, literal_number(Fraction(1)), size)


def rewrite_list(part: LoweredValue, words: list[str]) -> LoweredValue:
    """Return a value whose places stand for these texts, of which equal ones are one."""
    different = tuple(dict.fromkeys(words))
    at = {word: place for place, word in enumerate(different)}
    places = tuple(at[word] for word in words)
    if places == tuple(range(len(places))):  # only the texts change, not their places: nothing to compute
        return part.derive_value(part.value, Listed(different))
    return part.derive_value(Lookup(part.value, places), Listed(different))


def _listed_texts(part: LoweredValue, refusal: str) -> list[str]:
    """Return the texts of a public list."""
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], str):
        return [str(value) for value in part.domain.values]
    raise PolicyError("SF-Q110", refusal, try_="sf.one_of(…) for the column, or LIKE")


def make_text_test(before: str, after: str) -> Callable[[LoweredValue, LoweredValue], LoweredValue]:
    """Return STARTS_WITH, ENDS_WITH or CONTAINS: LIKE of a constant text between two pieces of pattern."""

    def test_text(part: LoweredValue, piece: LoweredValue) -> LoweredValue:
        word = require_typed_text(piece)
        # What was typed stands for itself, so LIKE's own signs in it are escaped.
        pattern = before + "".join(f"\\{each}" if each in "%_\\" else each for each in word) + after
        matches = match_pattern(part, pattern)
        # LIKE of a missing text is unknown, and so is the boolean that is made of it.
        return part.derive_value(
            Choose(matches, Constant(1), Choose(Missing(part.value), Constant(None), Constant(0))), TRUTH
        )

    return test_text
