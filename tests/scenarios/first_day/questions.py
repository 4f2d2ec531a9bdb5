"""Read the questions of the first day from their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TABLES = ("admissions", "orders", "employees")
UNANSWERABLE = "[cannot be answered] "


@dataclass(frozen=True)
class Question:
    """One question: whose file it is in, what is asked in words, and the SQL as typed."""

    table: str
    number: int
    words: str
    sql: str
    answerable: bool

    def __str__(self) -> str:
        return f"{self.table}-{self.number:02}"


def read_questions() -> list[Question]:
    """Return the questions of all three tables in the order of the files."""
    return [question for table in TABLES for question in _read_file(table)]


def _read_file(table: str) -> list[Question]:
    text = (HERE / f"{table}.sql").read_text(encoding="utf-8")
    found = re.findall(r"^-- (\d\d) (.+)\n((?:(?!-- \d\d ).*\n?)+)", text, flags=re.MULTILINE)
    return [
        Question(
            table=table,
            number=int(number),
            words=words.removeprefix(UNANSWERABLE),
            sql=sql.strip(),
            answerable=not words.startswith(UNANSWERABLE),
        )
        for number, words, sql in found
    ]
