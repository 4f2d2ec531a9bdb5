"""What one visitor sees through the door: feeds and the catalog, at a desk that follows what is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.lab.analysts import GrantedLab
from sfumato.queries.tool_selects import NamedTable
from sfumato.queries.tool_sqlite import not_supported, write_for_desk
from sfumato.server.feeds.reading import list_readable_feeds, require_reader
from sfumato.server.sql.catalog import (
    FILLED,
    LIVE,
    LONG_VERSION,
    OWN,
    PUBLISHED,
    fill_catalog,
    read_columns,
    show_feed,
    show_registered,
)
from sfumato.server.sql.desk import AnswerDesk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.lab.lab import Lab
    from sfumato.queries.tool_selects import ToolSelect
    from sfumato.queries.tool_sqlite import DeskSelect
    from sfumato.server.access import Visitor
    from sfumato.server.sql.catalog import ShownTable

_PATH = ("pg_catalog", PUBLISHED, OWN)
"""Where a name without a schema is looked for, in this order; registered tables come last."""

_MOST_PREPARED = 200
"""SELECTs whose form for the desk is remembered, because tools send the same ones again."""


class ShelfView:
    """The tables that a visitor sees now, and the desk that answers SELECTs about those that are released."""

    def __init__(self, lab: Lab, visitor: Visitor, database: str) -> None:
        self._lab, self._visitor, self._database = lab, visitor, database
        self._desk: AnswerDesk | None = None
        self._seen: Any = None
        self._tables: dict[NamedTable, ShownTable] = {}
        self._prepared: dict[str, DeskSelect] = {}

    def is_question(self, select: ToolSelect, *, priced: bool) -> bool:
        """Return whether a SELECT is about registered tables; one about both kinds is refused.

        A name that stands for a feed and for a registered table is the feed's, unless there is a price.
        """
        self._look()
        live = [self._is_registered(table, priced) for table in select.tables]
        if any(live) and not all(live):
            raise PolicyError(
                "SF-F134",
                "Released tables and registered ones cannot be asked together.",
                try_="release the question first, and join its table in the released schema",
            )
        return bool(live) and all(live)

    def prepare(self, select: ToolSelect) -> DeskSelect:
        """Return a SELECT about released tables and the catalog as the desk runs it."""
        self._look()
        if select.text not in self._prepared:
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            self._prepared[select.text] = self._prepare(select)
        return self._prepared[select.text]

    def _prepare(self, select: ToolSelect) -> DeskSelect:
        columns: dict[NamedTable, Mapping[str, str]] = {}
        for table in select.tables:
            found = self._find_columns(table)
            if found is None:
                raise PolicyError(
                    "SF-F135",
                    "There is no such table.",
                    asked=f"{table.schema}.{table.name}".strip(".")[:120],
                    try_="\\dt *.*, or SELECT * FROM information_schema.tables",
                )
            columns[table] = found
        return write_for_desk(select, columns, read_columns()["pg_catalog"].keys() - FILLED)

    def run_select(self, prepared: DeskSelect, values: Sequence[Any]) -> list[list[Any]]:
        """Return the rows of a SELECT that was prepared."""
        needed = len(prepared.parameters)
        if len(values) != needed:
            raise PolicyError("SF-F132", f"{needed} values are needed for the parameters.")
        rows = self._open_desk().run_select(prepared.sql, values[: prepared.used])
        if rows and len(rows[0]) != len(prepared.names):
            raise not_supported("this SELECT")  # its columns could not be told, as those of a bare VALUES
        return rows

    def cancel(self) -> None:
        """End the SELECT that the desk is at."""
        if self._desk is not None:
            self._desk.cancel()

    def close(self) -> None:
        """End the desk. The next SELECT opens another."""
        if self._desk is not None:
            self._desk.close()

    # ---- parts ----

    def _look(self) -> None:
        """See whether anything was released, published or registered since."""
        require_reader(self._lab, self._visitor.analyst)
        feeds = list_readable_feeds(self._lab, self._visitor)
        analyst = self._visitor.analyst
        registered = (self._lab if analyst is None else GrantedLab(self._lab, analyst)).tables()
        seen = (
            tuple((feed.path, feed.digest) for feed in feeds),
            tuple(each.identity for each in registered),
        )
        if seen == self._seen:
            return
        shown = [*map(show_feed, feeds), *map(show_registered, registered)]
        self._tables = {NamedTable(each.schema, each.name): each for each in shown}
        self._seen = seen
        self._prepared.clear()
        self.close()
        self._desk = None

    def _open_desk(self) -> AnswerDesk:
        if self._desk is None or not self._desk.is_open:
            user = self._visitor.name
            load = fill_catalog(list(self._tables.values()), user, self._database)
            settings = {"user": user, "database": self._database, "version": LONG_VERSION}
            self._desk = AnswerDesk(load, settings)
        return self._desk

    def _is_registered(self, table: NamedTable, priced: bool) -> bool:
        registered = table.schema in ("", LIVE) and any(
            each.schema == LIVE and each.name.casefold() == table.name.casefold() for each in self._tables
        )
        if not registered or table.schema == LIVE:
            return registered
        return priced or self._find_columns(table) is None

    def _find_columns(self, table: NamedTable) -> dict[str, str] | None:
        """Return the columns of a table that is at the desk, or None."""
        for schema in (table.schema,) if table.schema else _PATH:
            known = self._tables.get(NamedTable(schema, table.name))
            if known is not None and known.rows is not None:
                return dict(known.columns)
            if table.name in read_columns().get(schema, {}):
                return dict(read_columns()[schema][table.name])
        return None
