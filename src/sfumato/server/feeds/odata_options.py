"""The query options of OData: which columns and rows a client wants, and in which order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sfumato.errors import UsageError
from sfumato.server.feeds.odata_filter import Row, parse_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_ROWS = 10_000
"""Rows of one page; a link leads to the next."""
_OPTIONS = ("select", "top", "skip", "count", "orderby", "filter", "format")
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """What a client wants of an entity set."""

    select: tuple[str, ...] | None
    top: int | None
    skip: int
    count: bool
    order: tuple[tuple[str, bool], ...]
    """Columns to sort by, and whether from the greatest down."""
    keeps: Callable[[Row], bool] | None
    text: Mapping[str, str]
    """The options as they were sent, for the link to the next page."""

    def apply(self, rows: Sequence[Row]) -> tuple[Sequence[Row], int, int | None]:
        """Return the rows of this page, how many the filter keeps in all, and where the next page begins."""
        kept = list(rows) if self.keeps is None else [row for row in rows if self.keeps(row)]
        for name, falling in reversed(self.order):
            kept.sort(key=lambda row: _sort_key(row[name]), reverse=falling)
        end = len(kept) if self.top is None else min(len(kept), self.skip + self.top)
        page = kept[self.skip : min(end, self.skip + MOST_ROWS)]
        following = self.skip + len(page)
        return page, len(kept), following if page and following < end else None

    def link_next(self, skip: int) -> str:
        """Return the query of the next page, which begins after so many rows."""
        options = {**self.text, "$skip": str(skip)}
        if self.top is not None:
            options["$top"] = str(self.top - (skip - self.skip))
        return "&".join(f"{quote(name, safe='$')}={quote(value)}" for name, value in options.items())


def parse_options(query: Sequence[tuple[str, str]], columns: Mapping[str, str]) -> FeedOptions:
    """Return the options of a query about columns of these kinds, or refuse one that is not known."""
    sent: dict[str, str] = {}
    for name, value in query:
        # OData 4.01 lets clients leave out the $; names of other options are the client's own affair.
        plain = name.removeprefix("$").lower()
        if plain in _OPTIONS:
            if plain in sent:
                raise _option_error(plain, "is given twice")
            sent[plain] = value
        elif name.startswith("$"):
            raise _option_error(name.removeprefix("$")[:40], "is not supported")
    return FeedOptions(
        _parse_select(sent.get("select"), columns),
        _parse_whole(sent, "top"),
        _parse_whole(sent, "skip") or 0,
        _parse_truth(sent),
        _parse_order(sent.get("orderby"), columns),
        None if "filter" not in sent else parse_filter(sent["filter"], columns),
        {f"${name}": value for name, value in sent.items()},
    )


def _parse_select(text: str | None, columns: Mapping[str, str]) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "*" in names:
        return None
    for name in names:
        if name not in columns:
            raise _option_error("select", f"names no column of this feed: '{name[:60]}'")
    return names


def _parse_order(text: str | None, columns: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    order: dict[str, bool] = {}
    for item in [] if text is None else text.split(","):
        name, _, way = item.strip().partition(" ")
        if name not in columns or way.strip() not in ("", "asc", "desc"):
            raise _option_error("orderby", "takes columns of this feed, each with asc or desc behind it")
        # Sorting by a column once more changes nothing, and would let one address sort thousands of times.
        order.setdefault(name, way.strip() == "desc")
    return tuple(order.items())


def _parse_whole(sent: Mapping[str, str], name: str) -> int | None:
    if name not in sent:
        return None
    if not _WHOLE.fullmatch(sent[name]):
        raise _option_error(name, "takes a whole number, 0 or more")
    return int(sent[name])


def _parse_truth(sent: Mapping[str, str]) -> bool:
    if sent.get("count", "false") not in ("true", "false"):
        raise _option_error("count", "is true or false")
    return sent.get("count") == "true"


def _sort_key(cell: Any) -> tuple[bool, Any]:
    """Return a key by which missing values come first, as OData says."""
    return (cell is not None, 0 if cell is None else cell)


def _option_error(name: str, why: str) -> UsageError:
    return UsageError(
        "SF-F122", f"The option ${name} {why}.", known=", ".join(f"${each}" for each in _OPTIONS)
    )
