"""Functions of texts: of a public list entry by entry, of free texts what all engines compute alike."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import TRUTH, Listed, Numbers, Texts
from sfumato.curator.lower.conditions import like, text_of
from sfumato.curator.lower.lowered import Lowered, literal_number
from sfumato.curator.lower.typed import typed_integer, typed_text
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


def length(part: Lowered) -> Lowered:
    if isinstance(part.domain, Texts):
        return part.then(Length(text_of(part)), Numbers(0, LONGEST_TEXT))
    lengths = [len(word) for word in _words(part)]
    return part.then(Lookup(part.value, tuple(lengths)), Numbers(min(lengths), max(lengths)))


def folded(upper: bool) -> Callable[[Lowered], Lowered]:
    def of(part: Lowered) -> Lowered:
        if isinstance(part.domain, Texts):
            return Lowered(Folded(text_of(part), upper), part.domain, part.constant, part.present)
        return _rewritten(part, [fold(word, upper=upper) for word in _words(part)])

    return of


def fold(word: str, *, upper: bool) -> str:
    """The letters of ASCII alone, as every engine can."""
    return "".join((each.upper() if upper else each.lower()) if each.isascii() else each for each in word)


def part_of_text(part: Lowered, start: Lowered, size: Lowered | None = None) -> Lowered:
    first = typed_integer(start, "Where SUBSTRING starts", range(1, LONGEST_TEXT + 1)) - 1
    last = (
        LONGEST_TEXT
        if size is None
        else first + typed_integer(size, "How long it is", range(LONGEST_TEXT + 1))
    )
    return _rewritten(part, [word[first:last] for word in _words(part)])


def left(part: Lowered, size: Lowered) -> Lowered:
    return part_of_text(part, literal_number(Fraction(1)), size)


def _rewritten(part: Lowered, words: list[str]) -> Lowered:
    different = tuple(dict.fromkeys(words))
    places = tuple(different.index(word) for word in words)
    if places == tuple(range(len(places))):
        return part.then(part.value, Listed(different))
    return part.then(Lookup(part.value, places), Listed(different))


def _words(part: Lowered) -> list[str]:
    """The texts of a public list."""
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], str):
        return [str(value) for value in part.domain.values]
    raise PolicyError(
        "SF-Q110", "This is asked of texts that are listed.", try_="sf.one_of(…) for the column, or LIKE"
    )


def tests(before: str, after: str) -> Callable[[Lowered, Lowered], Lowered]:
    """STARTS_WITH, ENDS_WITH and CONTAINS, as LIKE of a text typed in."""

    def of(part: Lowered, piece: Lowered) -> Lowered:
        word = typed_text(piece)
        pattern = before + "".join(f"\\{each}" if each in "%_\\" else each for each in word) + after
        matches = like(part, pattern)
        return part.then(
            Choose(matches, Constant(1), Choose(Missing(part.value), Constant(None), Constant(0))), TRUTH
        )

    return of
