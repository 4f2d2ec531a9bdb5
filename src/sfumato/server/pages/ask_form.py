"""What the Ask page sends: a question, what it may cost, and what to show; parsed into what the API takes."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from sfumato.errors import UsageError
from sfumato.server.wire import BoundedBody, QuestionBody, SingleQuestionBody, SpendBody, TunedBody

EPSILON, ERROR = "epsilon", "error"
_NUMBER = re.compile(r"[0-9]*[.,]?[0-9]+([eE][+-]?[0-9]{1,2})?\Z|[0-9]+/[0-9]+\Z")
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
_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_NAMES = {
    "epsilon": "ε",
    "delta": "δ",
    "error": "the error",
    "given": "the rows of a group",
    "tune": "ε for tuning",
}


@dataclass(frozen=True, slots=True)
class AskForm:
    """The fields of the Ask page, as they were typed."""

    sql: str = ""
    spend: str = EPSILON
    epsilon: str = "0.1"
    delta: str = ""
    error: str = ""
    error_name: str = "n"
    given: str = ""
    groups: str = ""
    rows: str = ""
    tune: str = ""
    """The ε for picking bounds privately; empty for a question without that."""
    preview: bool = False
    form_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """What tells this form from all others, so that pressing its button twice is one charge."""

    def read_question(self) -> QuestionBody:
        """Return the question."""
        if not self.sql.strip():
            raise UsageError("SF-W183", "There is no question yet.", try_="SELECT COUNT(*) AS n FROM a table")
        bounded = None
        if self.groups.strip() or self.rows.strip():
            limits = {"groups": _parse_whole("groups", self.groups), "rows": _parse_whole("rows", self.rows)}
            bounded = BoundedBody(**limits)
        statements = split_statements(self.sql)
        try:
            if len(statements) > 1:
                bare: dict[str, Any] = {"table": None, "steps": None}
                each = [SingleQuestionBody(sql=text, bounded=bounded, **bare) for text in statements]
                return QuestionBody(sql=None, together=each, tuned=self.read_tuned(), **bare)
            return QuestionBody(
                sql=self.sql, bounded=bounded, tuned=self.read_tuned(), table=None, steps=None
            )
        except ValidationError:
            raise UsageError("SF-W183", "The question is too long.", most="20,000 characters") from None

    def read_tuned(self) -> TunedBody | None:
        """Return what picking bounds costs, and for which ε of the question; None where none are picked."""
        if not self.tune.strip():
            return None
        served = None if self.spend == ERROR else _parse_number("epsilon", self.epsilon)
        return TunedBody(epsilon=_parse_number("tune", self.tune), for_epsilon=served)

    def read_spend(self) -> SpendBody:
        """Return what the question may cost, in the one way that was chosen."""
        typed: dict[str, Any] = {}
        if self.spend == ERROR:
            name = self.error_name.strip() or "n"
            typed["error"] = {name: _parse_number("error", self.error)}
        else:
            typed["epsilon"] = _parse_number("epsilon", self.epsilon)
            if self.delta.strip():
                typed["delta"] = _parse_number("delta", self.delta)
        if self.given.strip():
            typed["given"] = {"n": _parse_whole("given", self.given)}
        try:
            return SpendBody(**typed)
        except ValidationError:
            raise _no_number_error("spend", "") from None

    def make_key(self) -> str:
        """Return the key of this form's question: once it is charged, sending the form again is free."""
        said = f"{self.sql}\n{self.spend}\n{self.epsilon}\n{self.delta}\n{self.error}\n{self.error_name}"
        said += f"\n{self.groups}\n{self.rows}" + (f"\n{self.tune}" if self.tune else "")
        return f"page {self.form_key[:64]} {hashlib.sha256(said.encode()).hexdigest()[:16]}"


def split_statements(text: str) -> list[str]:
    """Return the statements of a text, which semicolons divide, without empty ones."""
    statements: list[list[str]] = [[]]
    for piece in _PIECE.findall(text):
        if piece == ";":
            statements.append([])
        else:
            statements[-1].append(piece)
    bare = (_COMMENTS.sub("", "".join(pieces), count=1).strip() for pieces in statements)
    return [each for each in bare if each]


def _parse_number(name: str, typed: str) -> str:
    """Return a number as exact text; a comma may stand for the point."""
    text = typed.strip()
    if not _NUMBER.match(text) or len(text) > 40:
        raise _no_number_error(name, text)
    plain = text.replace(",", ".")
    return f"0{plain}" if plain.startswith(".") else plain


def _parse_whole(name: str, typed: str) -> int:
    text = typed.strip() or "1"
    if not text.isdecimal() or len(text) > 12 or int(text) < 1:
        raise _no_number_error(name, text)
    return int(text)


def _no_number_error(name: str, typed: str) -> UsageError:
    return UsageError(
        "SF-W183",
        "A number is needed here, above zero.",
        field=_NAMES.get(name, name),
        got=typed[:40] or "nothing",
        try_="0.1",
    )
