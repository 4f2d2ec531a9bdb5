"""What each statement does: settings, transactions that change nothing, and SELECTs on their two ways."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.queries.tool_selects import parse_tool_select
from sfumato.server.sql.asking import ask_question, quote_question
from sfumato.server.sql.catalog import LIVE, VERSION
from sfumato.server.sql.shelf_view import ShelfView
from sfumato.server.sql.texts import PRICES, first_word, read_amount, split_hint
from sfumato.server.sql.values import ARROW_KINDS, list_plain_rows, settle_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.lab.lab import Lab
    from sfumato.queries.tool_selects import ToolSelect
    from sfumato.server.access import Visitor

_SET = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?(?P<name>[\w.]+|\"[\w.]+\")\s*(?:=|\s+TO\s+|\s)\s*(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)
_COPY = re.compile(
    r"COPY\s*(?:\((?P<select>.*)\)|(?P<table>[\w.\"]+)\s*(?:\((?P<columns>[^()]*)\))?)\s*TO\s+STDOUT\s*"
    r"(?:WITH\s*)?(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SELECTS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_TAGS = {
    "BEGIN": "BEGIN",
    "START": "START TRANSACTION",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK",
    "SAVEPOINT": "SAVEPOINT",
    "RELEASE": "RELEASE",
    "DISCARD": "DISCARD ALL",
    "DEALLOCATE": "DEALLOCATE",
    "CLOSE": "CLOSE CURSOR",
    "LISTEN": "LISTEN",
    "UNLISTEN": "UNLISTEN",
    "RESET": "RESET",
    "SET": "SET",
}
_SETTINGS = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "default_transaction_read_only": "on",
    "search_path": "published, released, live",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "integer_datetimes": "on",
    "max_identifier_length": "63",
    "is_superuser": "off",
    "application_name": "",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_collate": "C",
    "default_table_access_method": "heap",
    "server_version_num": "150000",
}


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What a statement gives: a tag, and rows if it is about rows."""

    tag: str
    names: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] = field(default=(), repr=False)
    copied: str | None = None
    """How the rows of COPY are written: text, csv or binary."""


class StatementRunner:
    """Runs the statements of one connection: reads released tables, and asks questions for one visitor."""

    def __init__(self, lab: Lab, visitor: Visitor, database: str) -> None:
        self._lab, self._visitor = lab, visitor
        self._shelf = ShelfView(lab, visitor, database)
        self._settings: dict[str, str] = dict(_SETTINGS)
        self._prices: dict[str, Fraction] = {}
        self.status = "I"
        """I outside of a transaction, T in one, E in one that has failed."""

    def run(self, text: str, values: Sequence[Any] = ()) -> StatementOutcome:
        """Run one statement and return what it gives."""
        hint, statement = split_hint(text)
        word = first_word(statement)
        if self.status == "E" and word not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise UsageError("SF-F137", "The transaction has failed; nothing is run before ROLLBACK.")
        if word in _SELECTS:
            return self._select(statement, hint, values)
        if word == "COPY":
            return self._copy(statement, hint, values)
        if word == "SHOW":
            return self._show(statement)
        if word == "EXPLAIN":
            return self._explain(statement, hint, values)
        if word not in _TAGS:
            raise PolicyError(
                "SF-F130",
                "Only SELECT is answered here: tables cannot be changed.",
                try_="SELECT * FROM published.NAME, or \\dt *.* to see what there is",
            )
        self._change_state(word, statement)
        return StatementOutcome(_TAGS[word])

    def set_option(self, name: str, value: str) -> None:
        """Set what a tool gives when it connects, or with SET: a price, or a setting that changes nothing."""
        plain, value = name.lower().strip('"'), value.strip("'")
        room, _, price = plain.rpartition(".")
        if room == "sfumato":
            if price not in PRICES:
                raise UsageError("SF-F131", "There is no such price.", known=", ".join(PRICES))
            if value in ("", "default", "DEFAULT"):
                self._prices.pop(price, None)
            else:
                self._prices[price] = read_amount(value)
        elif plain == "client_encoding" and value.lower().replace("-", "") not in ("utf8", "unicode"):
            raise UsageError("SF-F138", "Texts are in UTF8 here.", try_="SET client_encoding = 'UTF8'")
        elif plain in self._settings:
            self._settings[plain] = value[:200]

    def describe(self, text: str) -> tuple[list[str | None], StatementOutcome | None]:
        """Return the kinds of the parameters of a statement, and its columns if it has any.

        A question is asked now, because its columns are known with its answer; asking it again is free.
        """
        hint, statement = split_hint(text)
        word = first_word(statement)
        if word not in _SELECTS:
            return [], None if word not in ("SHOW", "EXPLAIN") else self.run(text)
        select = parse_tool_select(statement)
        if not self._is_live(select, hint):
            prepared = self._shelf.prepare(select)
            known = tuple(kind or "text" for kind in prepared.kinds)
            return list(prepared.parameters), StatementOutcome("", prepared.names, known)
        return [], self.run(text)

    def cancel(self) -> None:
        """End a SELECT about released tables. A question goes on: it is charged, and asking again is free."""
        self._shelf.cancel()

    def close(self) -> None:
        """End what the connection holds."""
        self._shelf.close()

    # ---- SELECT ----

    def _select(self, statement: str, hint: dict[str, Fraction], values: Sequence[Any]) -> StatementOutcome:
        if first_word(statement) == "TABLE":
            statement = f"SELECT * FROM {statement[5:]}"  # noqa: S608  parsed like any other
        select = parse_tool_select(statement)
        if self._is_live(select, hint):
            table = ask_question(
                self._lab,
                self._visitor,
                self._write_question(select, statement, values),
                hint or self._prices,
            )
            kinds = tuple(ARROW_KINDS[str(each.type)] for each in table.schema)
            rows: Sequence[Sequence[Any]] = list_plain_rows(table)
            return StatementOutcome(f"SELECT {len(rows)}", tuple(table.column_names), kinds, rows)
        prepared = self._shelf.prepare(select)
        rows = self._shelf.run_select(prepared, values)
        kinds = settle_kinds(prepared.kinds, rows)
        return StatementOutcome(f"SELECT {len(rows)}", prepared.names, kinds, rows)

    def _write_question(self, select: ToolSelect, statement: str, values: Sequence[Any]) -> str:
        """Return a question as its own text, unless values or a schema have to be put in or taken out."""
        if not values and not any(each.schema for each in select.tables):
            return statement
        return select.fill_parameters(values).write_question(LIVE)

    def _is_live(self, select: ToolSelect, hint: dict[str, Fraction]) -> bool:
        return self._shelf.is_question(select, priced=bool(hint))

    def _copy(self, statement: str, hint: dict[str, Fraction], values: Sequence[Any]) -> StatementOutcome:
        found = _COPY.fullmatch(statement)
        form = "text" if found is None else _find_form(found["options"])
        if found is None or form is None:
            raise PolicyError(
                "SF-F130", "Only COPY … TO STDOUT is answered here.", try_="COPY (SELECT …) TO STDOUT"
            )
        named = (found["columns"] or "*", found["table"])
        inner = found["select"] or "SELECT {} FROM {}".format(*named)  # noqa: S608  parsed like any other
        rows = self._select(split_hint(inner)[1], hint or split_hint(inner)[0], values)
        return StatementOutcome(f"COPY {len(rows.rows)}", rows.names, rows.kinds, rows.rows, form)

    def _explain(self, statement: str, hint: dict[str, Fraction], values: Sequence[Any]) -> StatementOutcome:
        inner_hint, inner = split_hint(
            re.sub(r"^EXPLAIN\s+(?:\([^)]*\)|VERBOSE)?", "", statement, flags=re.IGNORECASE)
        )
        select = parse_tool_select(inner)
        said = "This reads released tables. It costs nothing."
        price = hint or inner_hint
        if self._is_live(select, price):
            text = self._write_question(select, inner, values)
            said = quote_question(self._lab, self._visitor, text, price or self._prices)
        rows = [[line] for line in said.splitlines()]
        return StatementOutcome("EXPLAIN", ("QUERY PLAN",), ("text",), rows)

    # ---- settings and transactions ----

    def _show(self, statement: str) -> StatementOutcome:
        name = re.sub(r"^SHOW\s+", "", statement, flags=re.IGNORECASE).strip().strip('"').lower()
        name = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(
            name, name
        )
        if name == "all":
            rows = [[each, value, ""] for each, value in sorted(self._settings.items())]
            return StatementOutcome("SHOW", ("name", "setting", "description"), ("text",) * 3, rows)
        room, _, price = name.rpartition(".")
        if room == "sfumato" and price in PRICES:
            value = str(self._prices.get(price, ""))
        elif name in self._settings:
            value = self._settings[name]
        else:
            raise UsageError("SF-F138", "There is no such setting.", got=name[:60], try_="SHOW ALL")
        return StatementOutcome("SHOW", (name,), ("text",), [[value]])

    def _change_state(self, word: str, statement: str) -> None:
        """Follow transactions, so that tools see what they expect; there is nothing to change in them."""
        if word in ("BEGIN", "START"):
            self.status = "T"
        elif word in ("COMMIT", "END", "ROLLBACK", "ABORT"):
            partial = re.search(r"\bTO\b", statement, re.IGNORECASE) is not None
            self.status = "T" if partial and self.status != "I" else "I"
        elif word == "RESET":
            name = statement[5:].strip().lower()
            for price in PRICES:
                if name in ("all", f"sfumato.{price}"):
                    self._prices.pop(price, None)
        elif word == "DISCARD":
            self._prices.clear()
        elif word == "SET":
            found = _SET.fullmatch(statement)
            if found is None:
                raise UsageError("SF-F138", "This SET cannot be read.", try_="SET sfumato.epsilon = '0.1'")
            self.set_option(found["name"], found["value"].strip().strip("'"))


def _find_form(options: str) -> str | None:
    """Return how COPY writes rows, or None for what is not known."""
    words = set(re.findall(r"\w+", options.lower()))
    if not words <= {"format", "binary", "text", "csv", "header", "true", "false", "on", "off"}:
        return None
    return "binary" if "binary" in words else "csv" if "csv" in words else "text"
