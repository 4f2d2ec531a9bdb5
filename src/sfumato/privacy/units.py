"""The unit of protection: all rows of one unit together, under add/remove of that unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.bound_choice import BoundChoice
from sfumato.privacy.exact import parse_whole


@dataclass(frozen=True, slots=True, init=False)
class Unit:
    """The unit of protection: everyone named in `column`, with at most `max_rows` rows each.

    Tables whose units share an identifier space, the population, share one budget. The population is named by
    `of`, or by the column where `of` is not given.
    """

    column: str | None
    max_rows: int
    of: str | None
    public: bool
    """True where the rows are about no one who is protected."""
    choice: BoundChoice | None
    """How `max_rows` is chosen when the table is registered; until then it is 1."""

    def __init__(
        self,
        column: str,
        max_rows: int | BoundChoice | None = None,
        of: str | None = None,
        *,
        public: bool = False,
        choice: BoundChoice | None = None,
    ) -> None:
        # `dataclasses.replace` names every field; no unit of anyone is made public by it.
        if public is not False:
            raise UsageError("SF-C114", "Only sf.PUBLIC is the unit of a public table.")
        if not isinstance(column, str) or not column:
            raise UsageError(
                "SF-C114", "sf.Unit needs the name of the column that identifies the unit of each row."
            )
        if max_rows is None:
            raise UsageError(
                "SF-U104",
                f"Say how many rows of one {column} may count.",
                why="without a bound one person could change an answer without limit",
                try_=f'sf.Unit("{column}", max_rows=20)',
            )
        if isinstance(max_rows, BoundChoice):
            choice = max_rows
        if choice is not None and not isinstance(choice, BoundChoice):
            raise UsageError(
                "SF-C114", "How max_rows is chosen is said by sf.choose.", try_="sf.choose(epsilon=0.05)"
            )
        rows = 1 if isinstance(max_rows, BoundChoice) else parse_whole(max_rows, "max_rows")
        named: dict[str, Any] = {"column": str.__str__(column), "max_rows": rows, "of": check_population(of)}
        named |= {"public": False, "choice": choice}
        _set(self, **named)

    def __repr__(self) -> str:
        if self.column is None:
            return "PUBLIC" if self.public else "ROW"
        rows = self.max_rows if self.choice is None else self.choice
        of = "" if self.of is None else f", of={self.of!r}"
        return f"Unit({self.column!r}, max_rows={rows!r}{of})"

    def population(self, table: str) -> str:
        """Return the population whose account pays."""
        return self.of or self.column or table

    def to_dict(self) -> dict[str, Any]:
        """Return the form that is kept in the catalog."""
        named: dict[str, Any] = {"column": self.column, "max_rows": self.max_rows, "of": self.of}
        return named | ({"public": True} if self.public else {})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Unit:
        """Return the unit that `to_dict` wrote."""
        if fields.get("public"):
            return PUBLIC
        return cls(**fields) if fields["column"] is not None else ROW


def check_population(of: Any) -> str | None:
    """Return the chosen name of a population, or None where none was chosen."""
    if of is None or (isinstance(of, str) and of):
        return None if of is None else str.__str__(of)
    raise UsageError("SF-C114", "of must be the name of a population, as a text.", try_='of="patients"')


def _set(unit: Unit, **values: Any) -> Unit:
    for name, value in values.items():
        object.__setattr__(unit, name, value)
    return unit


_UNNAMED: dict[str, Any] = {
    "column": None,
    "max_rows": 1,
    "of": None,
    "choice": None,
}

ROW = _set(object.__new__(Unit), **_UNNAMED, public=False)
"""Each row is one person, and no one has two."""

PUBLIC = _set(object.__new__(Unit), **_UNNAMED, public=True)
"""The table is about no one who is protected. Its contents are public, and it can be joined with."""
