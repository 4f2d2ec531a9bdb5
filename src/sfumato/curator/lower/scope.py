"""Name resolution: the columns of a relation, and the column that holds the unit."""

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
    """The column's value; None for the unit, which can be counted and grouped by, and never be read."""
    hidden: bool = False
    """Whether it is found only with its table's name, since USING merged it with another column."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that names can mean at one place of a question."""

    fields: tuple[Field, ...]
    about: str = "this question"

    def find_column(self, name: Name) -> LoweredValue:
        """Return the column that a name means, or refuse with the names that there are."""
        found = self._field(name)
        if found is None:
            raise self._unknown(name, "a column that the steward did not declare cannot be used")
        if found.holds is None:
            raise self._unknown(name, "it identifies the unit of protection and is never shown")
        return found.holds

    def is_unit(self, name: Name) -> bool:
        """Return whether a name means the unit."""
        found = self._field(name)
        return found is not None and found.holds is None

    def name_same_column(self, one: Name, other: Name) -> bool:
        """Return whether two names mean one column."""
        first, second = self._field(one), self._field(other)
        return first is not None and second is not None and first.holds is second.holds

    def with_table_name(self, table: str) -> Scope:
        """Return the columns under an alias of their table."""
        return Scope(tuple(replace(each, tables=(table,)) for each in self.fields), f"'{table[:80]}'")

    def join_scope(self, other: Scope) -> Scope:
        """Return the columns of two joined relations."""
        return Scope(self.fields + other.fields, "these tables")

    def hide_columns(self, names: tuple[str, ...]) -> Scope:
        """Return the scope in which these names are found only with their table's name before them."""
        hidden = {name.casefold() for name in names}
        changed = (
            replace(each, hidden=each.hidden or each.name.casefold() in hidden) for each in self.fields
        )
        return Scope(tuple(changed), self.about)

    def without_unit(self) -> Scope:
        """Return the scope without the unit: the right side of a LEFT JOIN may have no row."""
        return Scope(tuple(each for each in self.fields if each.holds is not None), self.about)

    def map_columns(self, change: Callable[[LoweredValue], LoweredValue]) -> Scope:
        """Return the scope with every column but the unit changed."""
        changed = (
            each if each.holds is None else replace(each, holds=change(each.holds)) for each in self.fields
        )
        return Scope(tuple(changed), self.about)

    def _field(self, name: Name) -> Field | None:
        """Return the field of this very name, or the only one that differs in case, or None.

        A declared column hides a unit of the same name.
        """
        near = [
            each for each in self.fields if _same_name(each.name, name.column) and self._under(each, name)
        ]
        for found in (
            [each for each in near if each.name == name.column and each.holds is not None],
            [each for each in near if each.holds is not None],
            near,
        ):
            # By identity: after USING one column stands under two tables and is not ambiguous.
            if len({id(each.holds) for each in found}) > 1:
                raise PolicyError(
                    "SF-Q133",
                    f"Column '{name.column[:80]}' is ambiguous.",
                    try_=" or ".join(f"{each.tables[0]}.{each.name}" for each in found if each.tables),
                )
            if found:
                return found[0]
        return None

    def _under(self, field: Field, name: Name) -> bool:
        if name.table is None:
            return not field.hidden
        return any(_same_name(table, name.table) for table in field.tables)

    def _unknown(self, name: Name, why: str) -> PolicyError:
        named = [each for each in self.fields if not each.name.startswith("\0")]
        declared = ", ".join(each.name for each in named if each.holds is not None)
        # What was typed is cut off: an error stays readable whatever an analyst writes.
        return PolicyError(
            "SF-Q107",
            f"{self.about[:1].upper()}{self.about[1:]} has no declared column '{str(name)[:80]}'.",
            declared=declared or "none; only COUNT(*) can be asked",
            why=why,
        )


def _same_name(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
