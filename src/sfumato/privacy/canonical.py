"""The one JSON text of a value, from which requests, entries and receipts are hashed.

What was charged is found again by its hash, for years and across versions. So a frozen value is written under
a tag and field names that are spelled out beside its class, never under the names of the class and its
attributes: renaming either changes nothing that was stored. Tests pin the hashes of typical questions.
"""

from __future__ import annotations

import json
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Kind = TypeVar("Kind", bound=type)
    Value = TypeVar("Value")
    Form = Callable[[Any], dict[str, Any]]

# By the exact class: a subclass is another value and needs a tag of its own.
_FORMS: dict[type, Form] = {}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_AS_THEY_ARE = frozenset({type(None), str, bool, int})


def tagged(tag: str, *written: str) -> Callable[[Kind], Kind]:
    """Let instances of a dataclass be hashed, under this tag and these field names, in order."""

    def register(kind: Kind) -> Kind:
        names = tuple(field.name for field in fields(kind))
        if len(names) != len(written):
            raise TypeError(f"{kind.__name__} has {len(names)} fields; the tag names {len(written)}")
        pairs = tuple(zip(written, names, strict=True))
        _FORMS[kind] = lambda value: {"": tag, **{key: getattr(value, name) for key, name in pairs}}
        return kind

    return register


def written_by(form: Callable[[Value], dict[str, Any]]) -> Callable[[type[Value]], type[Value]]:
    """Let instances of a class be hashed as the dictionary that `form` makes of them; "" holds the tag."""

    def register(kind: type[Value]) -> type[Value]:
        _FORMS[kind] = form
        return kind

    return register


def canonical_json(value: Any) -> str:
    """Return the JSON text of a value: keys sorted, no spaces, frozen values by their tags."""
    return _Writer().write(value)


class _Writer:
    """Writes one text. A frozen value that others share, as the rounds of a fit do, is written once."""

    def __init__(self) -> None:
        # By identity; each value is held, so that no identity is used again.
        self._known: dict[int, tuple[Any, str]] = {}

    def write(self, value: Any) -> str:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return _ENCODER.encode(value)
        if kind is list or kind is tuple:
            # Lookup tables have thousands of integers: none of them is called for on its own.
            if _AS_THEY_ARE.issuperset(map(type, value)):
                return _ENCODER.encode(value)
            return f"[{','.join(map(self.write, value))}]"
        form = _FORMS.get(kind)
        if form is None:
            return self._write_other(value)
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = value, self._write_fields(form(value))
        return known[1]

    def _write_fields(self, fields: dict[str, Any]) -> str:
        written = []
        for name in sorted(fields):
            part = fields[name]
            text = _ENCODER.encode(part) if type(part) in _AS_THEY_ARE else self.write(part)
            written.append(f"{_ENCODER.encode(name)}:{text}")
        return f"{{{','.join(written)}}}"

    def _write_other(self, value: Any) -> str:
        if isinstance(value, str | int):
            return _ENCODER.encode(value)
        if isinstance(value, Fraction):
            return _ENCODER.encode(str(value))
        if isinstance(value, Enum):
            return self.write(value.value)
        if isinstance(value, dict):
            return self._write_fields({str(name): part for name, part in value.items()})
        if isinstance(value, list | tuple):
            return f"[{','.join(map(self.write, value))}]"
        raise TypeError(f"{type(value).__name__} has no tag, so it cannot be hashed")
