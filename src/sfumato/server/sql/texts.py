"""SQL as text, before it is parsed: single statements, their first words, and prices in comments."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from sfumato.errors import UsageError

PRICES = ("epsilon", "delta", "rho", "share", "risk")
"""The ways to say what a question may cost."""
_HINT = "/*+ epsilon=0.1 */ SELECT …, or SET sfumato.epsilon = '0.1'"
# Every kind of quote ends at its end or with the text, so that no text is looked through twice.
_PIECE = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*(?:'|$)   # a text with escapes
      | '(?:[^']|'')*(?:'|$)             # a text
      | "(?:[^"]|"")*(?:"|$)             # a name
      | --[^\n]*                         # a comment up to the end of the line
      | /\*.*?(?:\*/|$)                  # a comment
      | ;
      | [^'"eE;/-]+ | .                  # anything else""",
    re.VERBOSE | re.DOTALL,
)
_LEADING = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?P<hint>\+)?(?P<said>.*?)(?:\*/|$))", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+|\(")
_PAIR = re.compile(r"(?P<name>[a-z]+)\s*=\s*'?(?P<value>[0-9./eE+-]{1,90})'?")
_NUMBER = re.compile(r"\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?|\d{1,40}/\d{1,40}", re.ASCII)


def split_statements(text: str) -> list[str]:
    """Return the statements of a text, which semicolons divide, without empty ones."""
    statements: list[str] = []
    current: list[str] = []
    for piece in _PIECE.findall(text):
        if piece == ";":
            statements.append("".join(current))
            current = []
        else:
            current.append(piece)
    statements.append("".join(current))
    return [each.strip() for each in statements if split_hint(each)[1]]


def split_hint(text: str) -> tuple[dict[str, Fraction], str]:
    """Return the price that a comment before a statement says, and the statement without such comments."""
    spend: dict[str, Fraction] = {}
    at = 0
    while (found := _LEADING.match(text, at)) is not None and found.end() > at:
        if found["hint"]:
            spend |= _read_hint(found["said"])
        at = found.end()
    return spend, text[at:].strip().rstrip(";").rstrip()


def first_word(statement: str) -> str:
    """Return the first word of a statement in capital letters."""
    found = _WORD.match(statement)
    return "" if found is None else found.group().upper()


def read_amount(text: Any) -> Fraction:
    """Return a number of a price exactly, or refuse it."""
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        try:
            return Fraction(text)
        except ZeroDivisionError:
            pass
    raise UsageError("SF-F131", "A price is a number such as 0.1 or 1/10.", try_=_HINT)


def no_price_error() -> UsageError:
    """Return the refusal of a question that has no price and was not answered before."""
    return UsageError(
        "SF-F131",
        "This question was not answered before, and has no price.",
        why="an answer about registered rows spends privacy budget, so its price is never guessed",
        try_=_HINT,
    )


def _read_hint(said: str) -> dict[str, Fraction]:
    pairs = {found["name"]: found["value"] for found in _PAIR.finditer(said)}
    if not pairs or not set(pairs) <= set(PRICES):
        raise UsageError(
            "SF-F131", "The comment says no price that is known.", known=", ".join(PRICES), try_=_HINT
        )
    return {name: read_amount(value) for name, value in pairs.items()}
