"""HTML tables: every text is escaped."""

from sfumato import viz

HOSTILE = "<b onload='x'>&\""
ESCAPED = "&lt;b onload=&#x27;x&#x27;&gt;&amp;&quot;"


def test_every_cell_is_escaped() -> None:
    table = viz.html_table([HOSTILE], [[HOSTILE], ["2"]])
    assert HOSTILE not in table
    assert table.count(ESCAPED) == 2
    assert table.count("<tr>") == 3


def test_names_and_meanings_are_escaped() -> None:
    table = viz.definition_table([(HOSTILE, HOSTILE)])
    assert HOSTILE not in table
    assert table.count(ESCAPED) == 2
