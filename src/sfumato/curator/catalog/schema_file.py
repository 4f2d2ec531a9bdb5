"""A steward's declaration of a table, read from a TOML file and written to one.

    neighbours = "replace-one"        # left out: "add-remove"
    rows = 1000                       # with "replace-one" only

    [unit]                            # or unit = "row", or unit = "public"
    column = "patient_id"
    max_rows = 20                     # or { choose = 0.05 }: bought for this ε; for_epsilon, keep, up_to
    of = "patients"

    [columns.age]
    between = [0, 110]                # numbers, dates or timestamps; step = 1, missing = 40, constant = true
                                      # missing = false: no value is missing; format = "31/12/2024"
    [columns.cost]
    between = { choose = 0.05 }       # bounds that are bought
    [columns.ward]
    one_of = ["A", "B"]
    [columns.note]
    text = true

    [budget]
    epsilon = 4
    delta = "1e-7"
    side_share = "0.5"

Every error names the file and the path inside it.
"""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.curator.catalog.columns import (
    DateColumn,
    DeclaredColumn,
    ListedColumn,
    NumberColumn,
    TextColumn,
    UnboundedColumn,
    between,
    find_format,
    one_of,
    text,
)
from sfumato.errors import UsageError
from sfumato.privacy.bound_choice import BoundChoice, choose
from sfumato.privacy.budget import SIDE_SHARE, Budget
from sfumato.privacy.exact import parse_exact
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import PUBLIC, ROW, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.privacy.graph_units import Protected

_Word = TypeVar("_Word")

_UNITS = {"row": ROW, "public": PUBLIC}
_KINDS = ("between", "one_of", "text")


@dataclass(frozen=True, slots=True)
class Schema:
    """The arguments of `lab.register` that a file gives; None where it gives none."""

    unit: Protected | None
    columns: Mapping[str, DeclaredColumn | UnboundedColumn]
    budget: Budget | None
    neighbours: Neighbours
    rows: int | None


def read_schema(path: str | Path) -> Schema:
    """Return the schema in a file, or raise an error that says where in it something is wrong."""
    file = Path(path)
    try:
        # Decimals keep what was typed: as a double, 0.1 would not be a tenth.
        body = tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError:
        raise UsageError("SF-C202", "There is no such file.", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UsageError("SF-C127", f"{file.name} is not TOML.", why=str(problem)) from None
    return _Reader(file.name).schema(body)


def parse_schema(text: str, name: str) -> Schema:
    """Return the schema that a text in TOML declares; errors about it begin with this name."""
    try:
        return _Reader(name).schema(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError("SF-C127", f"{name} is not TOML.", why=str(problem)) from None


def read_fields(fields: dict[str, Any], name: str) -> Schema:
    """Return the schema that plain values declare, with the keys of a file; errors begin with this name."""
    return _Reader(name).schema(fields)


def write_schema(said: Schema, comments: Sequence[str] = ()) -> str:
    """Return the text of a schema file that says this; comments stand between columns and budget."""
    lines = [] if said.neighbours is Neighbours.ADD_REMOVE else [f'neighbours = "{said.neighbours.value}"']
    lines += [] if said.rows is None else [f"rows = {said.rows}"]
    lines += _write_unit(said.unit)
    for name, column in said.columns.items():
        lines += ["", f"[columns.{write_key(name)}]", *_write_column(column)]
    lines += comments
    if said.budget is not None:
        budget = said.budget
        delta = [f'delta = "{_write_exact(budget.delta)}"'] if budget.delta else []
        side = (
            [f'side_share = "{_write_exact(budget.side_share)}"'] if budget.side_share != SIDE_SHARE else []
        )
        lines += ["", "[budget]", f'epsilon = "{_write_exact(budget.epsilon)}"', *delta, *side]
    return "\n".join(lines).strip() + "\n"


def _write_unit(unit: Protected | None) -> list[str]:
    if unit is None:
        return ["# [unit]                 # who is protected", '# column = "…"', "# max_rows = 20"]
    if not isinstance(unit, Unit):
        raise UsageError("SF-C213", "A schema file declares tables of rows, and no graphs.")
    words = [word for word, known in _UNITS.items() if unit == known]
    if words:
        return [f'unit = "{words[0]}"']
    of = [] if unit.of is None else [f"of = {_write_toml(unit.of)}"]
    rows = str(unit.max_rows) if unit.choice is None else _write_choice(unit.choice)
    return ["[unit]", f"column = {_write_toml(unit.column)}", f"max_rows = {rows}", *of]


def _write_choice(choice: BoundChoice) -> str:
    """Return a bound that is to be chosen as an inline table; texts keep numbers exact."""
    aim = {"for_epsilon": choice.for_epsilon} if choice.keep is None else {"keep": choice.keep}
    said = {"choose": choice.epsilon, **aim, "up_to": choice.up_to}
    fields = [f'{name} = "{_write_exact(value)}"' for name, value in said.items() if value is not None]
    return f"{{ {', '.join(fields)} }}"


def _write_column(column: DeclaredColumn | UnboundedColumn) -> list[str]:
    match column:
        case UnboundedColumn():
            lines = [f"between = {_write_choice(column.choice)}"]
            lines += [] if column.step is None else [f"step = {_write_toml(column.step)}"]
        case NumberColumn():
            lines = [f"between = [{_write_toml(column.low)}, {_write_toml(column.high)}]"]
            lines += [f"step = {_write_toml(column.step)}"] if column.declared_step else []
        case DateColumn():
            lines = [f"between = [{_write_toml(column.low)}, {_write_toml(column.high)}]"]
        case ListedColumn():
            lines = [f"one_of = [{', '.join(map(_write_toml, column.values))}]"]
        case TextColumn():
            lines = ["text = true"]
    nullable = None if isinstance(column, UnboundedColumn) else column.nullable
    missing = column.missing if nullable is None else nullable
    lines += [] if missing is None else [f"missing = {_write_toml(missing)}"]
    written = find_format(column)
    lines += [f"format = {_write_toml(written)}"] if written else []
    return [*lines, "constant = true"] if column.constant else lines


def _write_toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Fraction():
            return _write_exact(value)
        case date():
            return value.isoformat()
        case int() | float() | Decimal():
            return _write_exact(parse_exact(value, "a number"))
    return json.dumps(value, ensure_ascii=False)  # a TOML text, for any text


def _write_exact(number: Fraction) -> str:
    """Return the digits of a number that has finitely many, as all do that were typed as decimals."""
    if number.denominator == 1:
        return str(number.numerator)
    places = next((k for k in range(1, 400) if (number * 10**k).denominator == 1), None)
    if places is None:
        raise UsageError(
            "SF-C127", "A bound with no end of digits cannot be written to a schema file.", got=str(number)
        )
    return f"{Decimal(number.numerator * 10**places // number.denominator).scaleb(-places):f}"


def write_key(name: str) -> str:
    """Return the name of a column as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII) else json.dumps(name, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Reader:
    file: str

    def schema(self, body: dict[str, Any]) -> Schema:
        self._known("", body, ("unit", "columns", "budget", "neighbours", "rows"))
        columns = self._table("columns", body.get("columns", {}))
        return Schema(
            self._unit(body["unit"]) if "unit" in body else None,
            {name: self._column(f"columns.{name}", fields) for name, fields in columns.items()},
            self._budget(body["budget"]) if "budget" in body else None,
            self._neighbours(body.get("neighbours", Neighbours.ADD_REMOVE.value)),
            body.get("rows"),
        )

    def _unit(self, fields: Any) -> Unit:
        if isinstance(fields, str):
            return self._word("unit", fields, _UNITS)
        self._known("unit", fields, ("column", "max_rows", "of"))
        with self._at("unit"):
            rows = self._choice("unit.max_rows", fields.get("max_rows"))
            return Unit(fields.get("column", ""), rows, fields.get("of"))

    def _choice(self, path: str, value: Any) -> Any:
        """Return a bound that is to be chosen, where a table says how; any other value as it is."""
        if not isinstance(value, dict):
            return value
        self._known(path, value, ("choose", "for_epsilon", "keep", "up_to"))
        said = {name: self._number(f"{path}.{name}", each) for name, each in value.items()}
        if "choose" not in said:
            raise self._wrong(path, "needs the ε of the choice", "{ choose = 0.05 }")
        return choose(epsilon=said.pop("choose"), **said)

    def _column(self, path: str, fields: Any) -> DeclaredColumn | UnboundedColumn:
        self._known(path, fields, (*_KINDS, "step", "missing", "constant", "format"))
        kinds = [kind for kind in _KINDS if kind in fields]
        if len(kinds) != 1:
            raise self._wrong(path, "must have exactly one kind", "between, one_of or text")
        if not isinstance(fields.get("constant", False), bool):
            raise self._wrong(f"{path}.constant", "must be true or false", "constant = true")
        rules = {name: value for name, value in fields.items() if name not in _KINDS}
        readers = {"between": self._between, "one_of": self._listed, "text": self._text}
        with self._at(f"{path}.{kinds[0]}"):
            return readers[kinds[0]](path, fields[kinds[0]], rules)

    def _between(self, path: str, ends: Any, rules: dict[str, Any]) -> DeclaredColumn | UnboundedColumn:
        if isinstance(ends, dict):
            unbounded: UnboundedColumn = between(self._choice(f"{path}.between", ends), **rules)
            return unbounded
        if not isinstance(ends, list) or len(ends) != 2:
            raise self._wrong(f"{path}.between", "must be a list of two bounds", "between = [0, 110]")
        column: DeclaredColumn = between(*ends, **rules)
        return column

    def _listed(self, path: str, values: Any, rules: dict[str, Any]) -> DeclaredColumn:
        if not isinstance(values, list):
            raise self._wrong(f"{path}.one_of", "must be a list of values", 'one_of = ["A", "B"]')
        self._known(path, rules, ("missing", "constant"))
        return one_of(*values, **rules)

    def _text(self, path: str, true: Any, rules: dict[str, Any]) -> DeclaredColumn:
        if true is not True:
            raise self._wrong(f"{path}.text", "must be true", "text = true")
        self._known(path, rules, ("constant",))
        return text(**rules)

    def _budget(self, fields: Any) -> Budget:
        self._known("budget", fields, ("epsilon", "delta", "side_share"))
        numbers = {name: self._number(f"budget.{name}", value) for name, value in fields.items()}
        if "epsilon" not in numbers:
            raise self._wrong("budget", "needs an epsilon", "epsilon = 4")
        with self._at("budget"):
            return Budget(**numbers)

    def _number(self, path: str, value: Any) -> Any:
        """Return a number; a text such as "1e-7" is read exactly."""
        if not isinstance(value, str):
            return value
        try:
            return Decimal(value)
        except InvalidOperation:
            raise self._wrong(path, "must be a number", "1e-7") from None

    def _neighbours(self, word: Any) -> Neighbours:
        return self._word("neighbours", word, {each.value: each for each in Neighbours})

    # ---- parts ----

    def _word(self, path: str, word: Any, words: dict[str, _Word]) -> _Word:
        if not isinstance(word, str) or word not in words:
            raise self._wrong(path, "is not a known word", " or ".join(f'"{each}"' for each in words))
        return words[word]

    def _table(self, path: str, fields: Any) -> dict[str, Any]:
        if not isinstance(fields, dict):
            raise self._wrong(path, "must be a table", f"[{path}]")
        return fields

    def _known(self, path: str, fields: Any, names: tuple[str, ...]) -> None:
        for name in self._table(path, fields):
            if name not in names:
                raise self._wrong(f"{path}.{name}".lstrip("."), "is not a known key", ", ".join(names))

    @contextmanager
    def _at(self, path: str) -> Iterator[None]:
        """Put the place of a value before the errors about it."""
        try:
            yield
        except UsageError as problem:
            if problem.sentence.startswith(self.file):
                raise
            # `try` is a keyword of Python, so facts are passed with a trailing underscore.
            facts = {f"{name}_": fact for name, fact in problem.facts.items()}
            raise UsageError(problem.code, f"{self.file}: {path}: {problem.sentence}", **facts) from None

    def _wrong(self, path: str, rule: str, example: str) -> UsageError:
        return UsageError("SF-C127", f"{self.file}: {path}: {rule}.", try_=example)
