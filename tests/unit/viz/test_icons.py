"""Icon arrays show as many people as they say, by shape too, and carry no style and no script."""

from __future__ import annotations

import re

from sfumato.viz import IconPart, icon_array, icon_key


def test_an_icon_array_has_one_person_for_each_and_says_so() -> None:
    parts = [IconPart("harmed", 10, "full"), IconPart("more", 17, "ringed"), IconPart("not", 73, "outline")]
    drawn = icon_array(parts, title="Risk & more <1>", identity="risk")
    assert [drawn.count(f'class="icon-{shape}"') for shape in ("full", "ringed", "outline")] == [10, 17, 73]
    assert '<title id="risk-title">Risk &amp; more &lt;1&gt;</title>' in drawn
    assert '<desc id="risk-facts">10 harmed; 17 more; 73 not</desc>' in drawn
    assert 'viewBox="0 0 404 104"' in drawn
    assert not re.search(r"style|<script|on\w+=", drawn)


def test_no_person_is_drawn_outside_of_the_picture() -> None:
    drawn = icon_array([IconPart("all", 45, "ringed")], title="t", columns=10)
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups())  # type: ignore[union-attr]
    for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="9.4"', drawn):
        assert 9.4 <= float(x) <= width - 9.4
        assert 9.4 <= float(y) <= height - 9.4


def test_a_key_is_one_person_that_screen_readers_pass_over() -> None:
    assert icon_key("ringed").count("<g ") == 1
    assert 'aria-hidden="true"' in icon_key("full")
