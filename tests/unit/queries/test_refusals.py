"""What is not on the closed list is refused, each time with the same text, before anything could be charged.

`refusals.txt` holds blocks of a question and the whole error it gets. After a change of wording,
`pytest tests/unit/queries --record` writes the texts anew; read the difference before keeping it.
"""

from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.curator.catalog import Catalog
from sfumato.curator.plan import plan
from sfumato.curator.spend import Pure
from sfumato.errors import PolicyError
from sfumato.queries.sql import question

FILE = Path(__file__).with_name("refusals.txt")
END = "\n----\n"


def _blocks() -> list[tuple[str, str]]:
    blocks = [
        block.partition("\n=>\n") for block in FILE.read_text(encoding="utf-8").split(END) if block.strip()
    ]
    return [(asked.strip("\n"), refused.strip("\n")) for asked, _, refused in blocks]


def _refusal(catalog: Catalog, sql: str) -> str:
    try:
        asked = question(sql)
        plan(catalog.table, asked, Pure(Fraction(1), Fraction(1, 10**6)))
    except PolicyError as refusal:
        return str(refusal)
    return "answered"


def test_each_is_refused_with_its_text(catalog: Catalog, pytestconfig: pytest.Config) -> None:
    got = [(sql, _refusal(catalog, sql)) for sql, _ in _blocks()]
    if pytestconfig.getoption("--record"):
        FILE.write_text(END.join(f"{sql}\n=>\n{refused}" for sql, refused in got) + "\n", encoding="utf-8")
    assert got == _blocks()


def test_there_are_enough_and_all_are_coded() -> None:
    blocks = _blocks()
    assert len(blocks) >= 80
    assert all(refused.startswith("SF-Q") for _, refused in blocks)
    assert len({asked for asked, _ in blocks}) == len(blocks)


@pytest.mark.parametrize(
    "text", ["x" * 20_001, "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 200 + "age = 1", 7, None]
)
def test_absurd_texts_are_refused(text: object) -> None:
    with pytest.raises(PolicyError) as refusal:
        question(text)  # type: ignore[arg-type]
    assert refusal.value.code in {"SF-Q113", "SF-Q101"}
