"""Made-up texts by the thousand: none crashes, none fails without a code, and what is answered is private.

Three sources in turn: a grammar of questions that are right more often than not, mutations of questions and
of the attempts in `escapes/`, and raw characters of every script. All are drawn from a fixed seed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfumato.errors import SealedError, SfumatoError
from sfumato.errors.codes import CODES
from sfumato.lab.session import Session

QUICK = 1_200
SLICES = 10
SLICE = 10_000

COLUMNS = ("age", "cost", "ward", "readmitted", "smoker", "diagnosis", "visits.age", "v.cost", '"age"')
STRANGE = (
    "name",
    "patient_id",
    "ssn",
    "c0",
    "unit",
    "rowid",
    "*",
    "visits",
    "height",
    '"a""b"',
    "é",
    "#1",
    "",
)
KEYS = ("ward", "readmitted", "smoker", "diagnosis")
TABLES = (
    "visits",
    "visits AS v",
    "people",
    "visits v JOIN people p ON v.patient_id = p.patient_id",
    "visits LEFT JOIN people USING (patient_id)",
    "visits a JOIN visits b USING (patient_id)",
)
AGGREGATES = ("COUNT", "SUM", "AVG", "VARIANCE", "STDDEV", "STDDEV_POP", "VAR_POP", "MEDIAN", "MIN", "MAX")
FUNCTIONS = (
    "ABS",
    "FLOOR",
    "LENGTH",
    "UPPER",
    "SUBSTR",
    "COALESCE",
    "CAST",
    "DATE_TRUNC",
    "ROUND",
    "SIGN",
    "CEIL",
    "POWER",
    "MOD",
    "NULLIF",
    "LEAST",
    "GREATEST",
    "LOWER",
    "LEFT",
    "CONTAINS",
    "STARTS_WITH",
    "IF",
    "error",
    "hash",
)
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "==", "LIKE", "IS", "IS NOT", "IN", "~", "IS DISTINCT FROM")
LITERALS = (
    "5",
    "65",
    "0",
    "-1",
    "1.5",
    "1e3",
    "1e40",
    "'A'",
    "'B'",
    "'it''s'",
    "NULL",
    "TRUE",
    "?",
    "0x1F",
    "'\u200b'",
)
WORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AND OR NOT AS JOIN ON USING WITH UNION ALL CASE WHEN
    THEN ELSE END NULL IS IN BETWEEN LIKE EXISTS DISTINCT OVER PARTITION VALUES LATERAL FILTER RECURSIVE
    ( ) , ; . * + - / % = < > ' " $$ -- /* */ :: [ ] { } | ! ? @ # : \\ -> => ** ^ & ~ `
"""
TOKENS = (*WORDS.split(), "\x00", "\u202e", "\ufeff", "\ud800", "\u2019", "\uff11", "\n")
PLAIN = (
    "age {sign} {number}",
    "{number} {sign} cost",
    "cost BETWEEN {number} AND {number}",
    "ward IN ('{ward}', 'A')",
    "ward <> '{ward}'",
    "readmitted = 1",
    "age IS NOT NULL",
    "diagnosis LIKE '%{number}_{ward}'",
    "LENGTH(diagnosis) {sign} {number}",
)
PECULIAR = (
    "{expression} {operator} {literal}",
    "{name} {operator} {expression}",
    "{name} {sign} {literal}",
    "{name} IN ({literal}, {number})",
    "EXISTS (SELECT {name} FROM people WHERE {name} {sign} {literal})",
)
PIECES = re.compile(r"\w+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Writes questions. `odd` is how often a part is something else than the plainest choice."""

    dice: Random
    odd: float = 0.1

    def question(self) -> str:
        keys = [self.key(name) for name in self.dice.sample(KEYS, self.few())]
        shown = [*keys, *(self.item(f"n{number}") for number in range(1 + self.few()))]
        parts = ["SELECT", ", ".join(shown), "FROM", self.table()]
        if self.chance(0.5):
            parts += ["WHERE", self.condition(3)]
        if keys or self.chance(self.odd):
            parts += ["GROUP BY", self.grouped(", ".join(keys) or self.key("ward"))]
        return " ".join([*parts, *self.after()])

    def table(self) -> str:
        return self.one(TABLES[:2], lambda: self.any(*TABLES, self.subquery()))

    def after(self) -> list[str]:
        having = ["HAVING", f"{self.aggregate()} > {self.number()}"] if self.chance(0.1) else []
        order = (
            ["ORDER BY", self.one(("1", "n0", "COUNT(*) DESC"), self.expression)] if self.chance(0.1) else []
        )
        limit = ["LIMIT", self.one(("1", "10"), self.literal)] if self.chance(0.1) else []
        return [*having, *order, *limit]

    def key(self, name: str) -> str:
        return self.one((name,), self.expression)

    def item(self, name: str) -> str:
        shown = self.aggregate()
        if self.chance(0.2):
            shown = f"{shown} {self.one(('+', '-', '*', '/'), self.sign)} {self.any(self.aggregate(), '2')}"
        if self.chance(0.2):
            shown = self.computed(shown)
        return f"{shown} AS {self.one((name,), self.name)}"

    def grouped(self, keys: str) -> str:
        if self.chance(0.85):
            return keys
        return self.any("ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())", "GROUPING SETS ({})").format(
            keys
        )

    def computed(self, shown: str) -> str:
        """Something that is computed from a released number, or is written as if it were."""
        order = f"ORDER BY {self.any('COUNT(*)', 'ward', '1', self.aggregate())} {self.any('', 'DESC')}"
        over = self.any("()", f"({order})", f"(PARTITION BY ward {order})", f"({order} ROWS 1 PRECEDING)")
        return self.any(
            f"ROUND({shown}, {self.any('0', '1', '-1', '99', self.literal())})",
            f"{self.any('RANK', 'ROW_NUMBER', 'DENSE_RANK', 'NTILE', 'CUME_DIST')}() OVER {over}",
            f"{self.any('SUM', 'AVG', 'MAX', 'LAG', 'LEAD', 'COUNT')}({shown}) OVER {over}",
            f"CASE WHEN {shown} > {self.literal()} THEN {self.literal()} ELSE {shown} END",
            f"{self.any('SQRT', 'LN', 'EXP', 'UPPER', 'ABS', 'FLOOR')}({shown})",
            f"{shown} {self.any('||', '%', '//', '/', '>')} {self.any(self.literal(), shown)}",
            f"CAST({shown} AS {self.any('INT', 'VARCHAR', 'DATE', 'DOUBLE')})",
            f"COALESCE({shown}, {self.literal()})",
        )

    def aggregate(self) -> str:
        function = self.one(AGGREGATES[:7], lambda: self.any(*AGGREGATES))
        argument = self.one(("age", "cost", "readmitted"), self.expression)
        return self.any("COUNT(*)", f"{function}({argument})", f"{function}({argument})")

    def condition(self, depth: int) -> str:
        if depth and self.chance(0.5):
            left, word, right = self.condition(depth - 1), self.any("AND", "OR"), self.condition(depth - 1)
            return self.any("{} {} {}", "NOT ({} {} {})", "({} {} {})").format(left, word, right)
        return self.one(PLAIN, lambda: self.any(*PECULIAR)).format(
            expression=self.expression(),
            name=self.name(),
            sign=self.any(*OPERATORS[:6]),
            operator=self.any(*OPERATORS),
            literal=self.literal(),
            number=self.number(),
            ward=self.any("A", "B", "C"),
        )

    def expression(self, depth: int = 3) -> str:
        if not depth or self.chance(0.4):
            return self.any(self.name(), self.literal(), self.any(*STRANGE))
        inner, literal = self.expression(depth - 1), self.literal()
        match self.dice.randrange(11):
            case 0:
                return f"{inner} {self.sign()} {self.expression(depth - 1)}"
            case 1:
                return f"{self.any(*FUNCTIONS)}({inner})"
            case 2:
                return f"{self.any(*FUNCTIONS)}({inner}, {literal})"
            case 3:
                return f"CASE WHEN {self.name()} = {literal} THEN {inner} ELSE {self.literal()} END"
            case 4:
                return f"CAST({inner} AS {self.any('INT', 'VARCHAR', 'DATE', 'DOUBLE', 'JSON')})"
            case 5:
                return f"(SELECT {inner} FROM {self.any('visits', 'people')})"
            case 6 | 7:
                tested = self.condition(1) if depth > 1 else f"{self.name()} IS NULL"
                return f"CASE WHEN {tested} THEN {inner} ELSE {self.expression(depth - 1)} END"
            case _:
                return self.any("({})", "-{}", "{} OVER ()", "[{}]", "{}::DATE").format(inner)

    def subquery(self) -> str:
        if self.chance(0.5):
            return f"(SELECT * FROM visits WHERE {self.name()} > {self.literal()}) AS t"
        figure = f"{self.any(*AGGREGATES)}({self.expression(2)}) AS cost"
        by = self.one(("patient_id",), self.name)
        return f"(SELECT {by}, {figure} FROM visits GROUP BY {by}) AS v"

    def name(self) -> str:
        return self.one(COLUMNS, lambda: self.any(*STRANGE))

    def number(self) -> str:
        return self.one((str(self.dice.randrange(120)), f"{self.dice.random():.3f}"), self.literal)

    def literal(self) -> str:
        huge = self.dice.randrange(-(10**6), 10 ** self.dice.randrange(1, 45))
        return self.any(*LITERALS, str(huge))

    def sign(self) -> str:
        return self.any("+", "-", "*", "/", "%", "||")

    def few(self) -> int:
        return self.dice.choice((0, 0, 1, 1, 2))

    def any(self, *options: str) -> str:
        return self.dice.choice(options)

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def one(self, usual: tuple[str, ...], other: Callable[[], str]) -> str:
        return other() if self.chance(self.odd) else self.dice.choice(usual)


def mutated(dice: Random, seeds: list[str]) -> str:
    """A few pieces deleted, doubled, replaced, moved, or cut off."""
    pieces = PIECES.findall(dice.choice(seeds))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        place = dice.randrange(len(pieces) + 1)
        other = PIECES.findall(dice.choice(seeds))
        match dice.randrange(7):
            case 0:
                pieces[place : place + 1] = []
            case 1:
                pieces[place:place] = pieces[place : place + dice.randrange(1, 4)]
            case 2:
                pieces[place : place + 1] = [dice.choice(TOKENS)]
            case 3:
                pieces[place:place] = [" ", dice.choice(TOKENS), " "]
            case 4:
                pieces[place : place + 1] = [chr(dice.randrange(0x110000))]
            case 5:
                pieces[place:] = other[dice.randrange(len(other) + 1) :]
            case _:
                pieces[place : place + 1] = [dice.choice((*COLUMNS, *STRANGE, *LITERALS))]
    return "".join(pieces)


def raw(dice: Random) -> str:
    """Characters of every script, among the signs that SQL is made of."""
    ends = (0x80, 0x800, 0x3000, 0x10000, 0x110000)
    signs = "()'\"`;,.*-/$[]{}=<>!|&^%#@:\\\n\t 0123456789eExX_"
    drawn = (
        dice.choice(signs) if dice.random() < 0.5 else chr(dice.randrange(dice.choice(ends)))
        for _ in range(dice.randrange(60))
    )
    text = "".join(drawn)
    return dice.choice((text, f"SELECT COUNT(*) FROM visits WHERE {text}", f"SELECT {text} FROM visits"))


def seeds() -> list[str]:
    """Plain questions of the grammar, and every attempt to escape that is not about size."""
    files = sorted(Path(__file__).with_name("escapes").iterdir())
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    attempts = [line for line in lines if "×" not in line and not line.startswith("# ")]
    grammar = Grammar(Random(0), odd=0)
    return attempts + [grammar.question() for _ in range(len(attempts))]


def texts(seed: int, count: int) -> list[str]:
    dice, known = Random(seed), seeds()
    grammar = Grammar(dice)
    sources = (
        grammar.question,
        lambda: mutated(dice, known),
        lambda: mutated(dice, known),
        lambda: raw(dice),
    )
    return [sources[number % len(sources)]() for number in range(count)]


def wrong(watch: Any, text: str, thorough: bool) -> str | None:
    """Refused in a coded way, or else answered under watch."""

    def ask(session: Session) -> Any:
        return session.sql(text)

    judge = watch.through if thorough else watch.glanced_through
    try:
        ask(watch.labs[0].session())
    except SfumatoError as problem:
        coded = problem.code in CODES and not isinstance(problem, SealedError)
        return None if coded and str(problem) and problem._repr_html_() else f"raised {problem!r}"
    except Exception as problem:
        return f"raised {type(problem).__name__}: {problem}"
    found: str | None = judge(ask)
    return found


@pytest.fixture(autouse=True)
def _without_the_parsers_log(caplog: pytest.LogCaptureFixture) -> None:
    """It quotes what was asked, halves of characters too, which no report can carry."""
    caplog.set_level(logging.ERROR, "sqlglot")


def _all_are_private(watch: Any, seed: int, count: int) -> None:
    before = watch.answered
    asked = texts(seed, count)
    found = {text: wrong(watch, text, number % 40 < 4) for number, text in enumerate(asked)}
    assert {text: why for text, why in found.items() if why} == {}
    answered = watch.answered - before
    print(f"{answered} of {count} answered, {len(found)} different")
    assert answered > count / 20  # else the grammar is no longer about what can be asked
    assert len(found) > count * 0.9


def test_made_up_texts_are_refused_or_private(watch: Any) -> None:
    _all_are_private(watch, 1, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SLICES))
def test_a_hundred_thousand_made_up_texts_are_refused_or_private(watch: Any, part: int) -> None:
    _all_are_private(watch, 100 + part, SLICE)


def test_the_same_seed_gives_the_same_texts() -> None:
    assert texts(5, 200) == texts(5, 200) != texts(6, 200)
