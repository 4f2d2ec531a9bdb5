"""Which names mean what: the columns of a relation, and the column that says whose row it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.question.relation import Name


@dataclass(frozen=True, slots=True)
class Field:
    """A column under its name, and under the names of tables that may stand before it."""

    name: str
    tables: tuple[str, ...]
    holds: LoweredValue | None
    """None for the unit's identifier, which can be counted and grouped by, and never be read."""
    hidden: bool = False
    """Whether only its table's name before it finds it, where a join made it one with another column."""


@dataclass(frozen=True, slots=True)
class Scope:
    fields: tuple[Field, ...]
    about: str = "this question"

    def find_column(self, name: Name) -> LoweredValue:
        """What a name means, or a refusal that says which names there are."""
        found = self._field(name)
        if found is None:
            raise self._unknown(name, "a column that the steward did not declare cannot be used")
        if found.holds is None:
            raise self._unknown(name, "it says who is protected and is never shown")
        return found.holds

    def is_unit(self, name: Name) -> bool:
        found = self._field(name)
        return found is not None and found.holds is None

    def name_same_column(self, one: Name, other: Name) -> bool:
        """Whether two names mean one column."""
        first, second = self._field(one), self._field(other)
        return first is not None and second is not None and first.holds is second.holds

    def require_unit(self, name: Name) -> None:
        """Refuse a name that is not the unit's."""
        if self.is_unit(name):
            return
        units = [each.name for each in self.fields if each.holds is None]
        raise PolicyError(
            "SF-Q130",
            f"Different values of '{name.column[:80]}' cannot be counted.",
            why="only the units of protection are counted once each",
            try_=f"COUNT(DISTINCT {units[0]})" if units else "COUNT(*)",
        )

    def with_table_name(self, table: str) -> Scope:
        """The same columns, which this table's name alone may stand before."""
        return Scope(tuple(replace(each, tables=(table,)) for each in self.fields), f"'{table[:80]}'")

    def join_scope(self, other: Scope) -> Scope:
        return Scope(self.fields + other.fields, "these tables")

    def hide_columns(self, names: tuple[str, ...]) -> Scope:
        """The same, in which these names are found only with their table's name before them."""
        hidden = {name.casefold() for name in names}
        changed = (
            replace(each, hidden=each.hidden or each.name.casefold() in hidden) for each in self.fields
        )
        return Scope(tuple(changed), self.about)

    def without_unit(self) -> Scope:
        """The same, in which no name says whose row it is: where there may be no such row."""
        return Scope(tuple(each for each in self.fields if each.holds is not None), self.about)

    def map_columns(self, change: Callable[[LoweredValue], LoweredValue]) -> Scope:
        changed = (
            each if each.holds is None else replace(each, holds=change(each.holds)) for each in self.fields
        )
        return Scope(tuple(changed), self.about)

    def _field(self, name: Name) -> Field | None:
        """The very name, or the only one that differs in case. Declared columns come before the unit."""
        near = [each for each in self.fields if _alike(each.name, name.column) and self._under(each, name)]
        for found in (
            [each for each in near if each.name == name.column and each.holds is not None],
            [each for each in near if each.holds is not None],
            near,
        ):
            if len({id(each.holds) for each in found}) > 1:
                raise PolicyError(
                    "SF-Q133",
                    f"'{name.column[:80]}' could mean two columns.",
                    try_=" or ".join(f"{each.tables[0]}.{each.name}" for each in found if each.tables),
                )
            if found:
                return found[0]
        return None

    def _under(self, field: Field, name: Name) -> bool:
        if name.table is None:
            return not field.hidden
        return any(_alike(table, name.table) for table in field.tables)

    def _unknown(self, name: Name, why: str) -> PolicyError:
        named = [each for each in self.fields if not each.name.startswith("\0")]
        declared = ", ".join(each.name for each in named if each.holds is not None)
        return PolicyError(
            "SF-Q107",
            f"{self.about[:1].upper()}{self.about[1:]} has no declared column '{str(name)[:80]}'.",
            declared=declared or "none; only COUNT(*) can be asked",
            why=why,
        )


def _alike(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
