"""Write the pages that are made from the code; `make docs` runs this and a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato.curator.catalog.domains import MOST_CELLS
from sfumato.curator.lower import expressions, joins, relations
from sfumato.curator.lower.words import MOST_WORDS
from sfumato.curator.plan import selections, work
from sfumato.curator.streams import plan as streams
from sfumato.engines.ingest import LONGEST_TEXT
from sfumato.engines.like import MOST_WILDCARDS
from sfumato.engines.support import ENGINES, SUPPORT, SupportedQuestion
from sfumato.errors.codes import AREAS
from sfumato.queries.patterns import MOST_PATTERNS
from sfumato.queries.sql import DEEPEST, LONGEST

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # tests run this file from elsewhere

from attacks_table import attacks_page  # noqa: E402
from audit_tables import audit_page  # noqa: E402
from rooms import rooms_picture  # noqa: E402
from sql_matrix import sql_page  # noqa: E402


def errors_page() -> str:
    """Return a page with one table of error codes for each area, in which each code can be linked to."""
    sections = (
        f"## {area}\n\n| code | meaning, and what to do |\n|---|---|\n"
        + "".join(_code_row(*each) for each in codes.items())
        for area, codes in AREAS.items()
    )
    return "\n".join([_ERRORS_HEAD, *sections])


def _code_row(code: str, meaning: str) -> str:
    return f'| <a id="{code}"></a>{code} | {meaning} |\n'


_ERRORS_HEAD = """# Error codes

Every error has a code, one sentence, and facts in aligned fields. There is one code for each kind of refusal;
the sentence and the hint say what is special about a case. This page lists what each code means and what to
do. `sfumato explain CODE` prints the same. `make docs` writes this page from the code.
"""


def engines_page() -> str:
    """Return a page with a table: one row for each kind of question, one column for each engine."""
    head = [
        "| question | for example | " + " | ".join(ENGINES) + " |",
        "|---|---" + "|---" * len(ENGINES) + "|",
    ]
    return "\n".join([_ENGINES_HEAD, *head, *map(_row, SUPPORT), ""])


def _row(support: SupportedQuestion) -> str:
    cells = [f"no ({support.lacking[name]})" if name in support.lacking else "yes" for name in ENGINES]
    return f"| {support.question} | `{support.example}` | {' | '.join(cells)} |"


_ENGINES_HEAD = """# Engines

Questions run where the table lives: DuckDB answers them for files and frames, inside your process; PostgreSQL
for tables in its database; Spark for Spark sources. Every engine stores the same integers for the same rows,
and before noise is added a question has the same exact answer on all of them, to the last digit. If an engine
does not support a kind of question, it raises the error code shown in its column. A test runs every example
on every engine. `make docs` writes this page from the code.
"""


def limits_page() -> str:
    """Return a page with every limit on a question: what is limited, how far, and by which error code."""
    rows = (f"| {what} | {most:,} | {code} |" for what, most, code in _LIMITS)
    return "\n".join([_LIMITS_HEAD, "| limit on | at most | error |", "|---|---|---|", *rows, _LIMITS_TAIL])


_LIMITS = (
    ("bytes of one unit that an engine carries", work.MOST_BYTES, "SF-Q158"),
    ("operations on the rows of one unit", work.MOST_OPERATIONS, "SF-Q158"),
    ("reads of a table, all steps of a question together", work.MOST_SCANS, "SF-Q158"),
    ("numbers in an answer: groups times sums", work.MOST_NUMBERS, "SF-Q158"),
    ("rows of one unit after joins", joins.MOST_ROWS, "SF-Q158"),
    (
        "tables that a question reads, one that WITH names twice counted twice",
        relations.MOST_TABLES,
        "SF-Q113",
    ),
    ("characters of a question", LONGEST, "SF-Q113"),
    ("levels of a question", DEEPEST, "SF-Q113"),
    ("parts of one computation", expressions.MOST_PARTS, "SF-Q113"),
    ("levels of one computation, or branches of CASE", expressions.MOST_LEVELS, "SF-Q113"),
    ("groups of a question", MOST_CELLS, "SF-Q113"),
    ("wildcards in a pattern of LIKE", MOST_WILDCARDS, "SF-Q159"),
    ("patterns of LIKE that a regular expression stands for", MOST_PATTERNS, "SF-Q159"),
    ("texts that a computed text can be", MOST_WORDS, "SF-Q113"),
    ("parts of partition()", work.MOST_SCANS, "SF-Q113"),
    ("values of top() times its k", work.MOST_NUMBERS, "SF-Q158"),
    ("blocks of subsample()", selections.MOST_BLOCKS, "SF-Q154"),
    ("ticks of a stream", streams.MOST_HORIZON, "SF-N118"),
    ("groups of a stream", streams.MOST_GROUPS, "SF-S103"),
    ("characters of a text in a table; the rest is cut off when it is prepared", LONGEST_TEXT, "none"),
)

_LIMITS_HEAD = """# Limits

Whether a question fails, and how long it takes, says something about the data. So before anything is
charged, every question gets an upper bound on what the rows of one unit can make an engine carry and
compute. It follows from public facts alone: `max_rows`, declared columns, the question itself, and how
often a public table repeats a key. A question above a limit is refused, whoever is in the data, and
costs nothing. `make docs` writes this page from the code.
"""

_LIMITS_TAIL = """
An operation is one part of an expression, computed for one row: a column, a sum, a comparison. Going
through a text once counts as 100 of them, and changing its case as 300. A `LIKE` compares the ends of
its pattern with the ends of the text, and each piece between percent signs with every place of the text,
which counts as 36 for each byte of the piece: `'%pain%'` counts 342. `_` counts as three bytes. A piece
with `_` inside that another piece follows counts 4,000 more for each run of letters in it and 500 for
each of its characters, so write it last or ask for it alone. Texts are tested where their row is read,
before any
join, so a `LIKE` costs as often as the unit has rows in that table and no text is carried further,
unless it is a key or compared with another text. A regular expression counts as the patterns of `LIKE`
that it stands for, at most 64. Rows multiply with every join of tables about the same
people: three tables of 20 rows a unit make 8,000. `GROUP BY` the unit in a subquery first, and it joins
as one row.

The bound of a question is `quote.plan.work`. Why it holds is in [the proof note](proofs/work.md).
"""

PAGES = {
    "errors.md": errors_page,
    "engines.md": engines_page,
    "limits.md": limits_page,
    "sql.md": sql_page,
    "attacks.md": attacks_page,
    "audit.md": audit_page,
    "images/rooms.svg": rooms_picture,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
