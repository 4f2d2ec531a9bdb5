"""Regular expressions as patterns of LIKE: they match what Python's own match, or are refused."""

from __future__ import annotations

import random
import re

import pytest

from sfumato.curator.question.relation import Disjunction
from sfumato.engines.like import parse_like
from sfumato.errors import PolicyError
from sfumato.queries.patterns import MOST_PATTERNS, expand_expression
from sfumato.queries.sql import parse_condition_text

SUPPORTED = (
    "late|damaged|broken", "^a.*b$", "(ab|c)d?", "a{2,3}", "[abc]x", r"555-\d", "^$", "", "a.b", "^(a|b)c",
    "a|^b|c$", ".+", r"\.", "(a|b){2}", ".*?b", "a{1,2}b", "((a))", "100%", "a_b", "[a-cx]", "^a?b{0,2}$",
)  # fmt: skip
REFUSED = ("x(?:y|z)+", "[0-9]{3}", "a+", r"\bx", "(?i)a", "(", "[^a]", "a**", "a{99}", "*", r"(a)\1", "a^b")
TEXTS = ("late", "aab", "ab", "abd", "cd", "aax", "555-0", "b", "c", "100%", "a_b", "aXb", "xy", "a\nb", "")


def texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    drawn = ["".join(rng.choice("abcdxyz019.-%_ \\\n") for _ in range(rng.randrange(7))) for _ in range(300)]
    return [*TEXTS, *drawn, *(one + other for one, other in zip(TEXTS, drawn, strict=False))]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("expression", SUPPORTED)
def test_the_same_texts_match(expression: str, whole: bool) -> None:
    patterns = [parse_like(each) for each in expand_expression(expression, whole=whole)]
    # Python's $ also matches before the last end of a line; ours is the end of the text.
    plain = re.compile(expression.replace("$", r"\Z"), re.DOTALL)
    for text in texts(len(expression)):
        wanted = plain.fullmatch(text) if whole else plain.search(text)
        assert any(each.matches(text) for each in patterns) == (wanted is not None), text


@pytest.mark.parametrize("expression", REFUSED)
def test_what_could_not_be_counted_is_refused_with_an_alternative(expression: str) -> None:
    with pytest.raises(PolicyError, match="LIKE") as refusal:
        expand_expression(expression, whole=False)
    assert refusal.value.code == "SF-Q159"


@pytest.mark.parametrize(
    "expression",
    ["((((((.){16}){16}){16}){16}){16}){16}", "(" * 999 + "a" + ")" * 999, "(" * 3000, "a" * 3000],
)
def test_a_short_text_never_stands_for_a_very_long_pattern(expression: str) -> None:
    with pytest.raises(PolicyError, match="more than"):
        expand_expression(expression, whole=False)


@pytest.mark.parametrize("expression", ["(a|b){16}", "[a-z][a-z]", "|".join("abcdefghij" * 7)])
def test_a_short_text_never_stands_for_very_many_patterns(expression: str) -> None:
    with pytest.raises(PolicyError, match=f"more than {MOST_PATTERNS}"):
        expand_expression(expression, whole=False)


def test_the_ways_to_write_one() -> None:
    folded = parse_condition_text("x ILIKE '%ab%'")
    assert parse_condition_text("REGEXP_MATCHES(x, 'AB', 'i')") == Disjunction((folded,))
    found = parse_condition_text("REGEXP_FULL_MATCH(x, 'a|b')")
    assert found == parse_condition_text("x SIMILAR TO 'a|b'")
    with pytest.raises(PolicyError, match="engines disagree"):
        parse_condition_text("x ~ 'ab'")
