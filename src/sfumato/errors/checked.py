"""Frozen values that check the types of their fields whenever they are made, so that none is ever unchecked.

`dataclasses.replace` makes a value anew, and `copy` and `pickle` copy one that was checked. Whoever sets
fields with `object.__setattr__`, or writes a pickle by hand, runs code of their own in this process, and no
check of ours stops that.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.errors import UsageError

Kind = TypeVar("Kind", bound=type[Any])
Test = Callable[[Any], bool]


def checked(kind: Kind) -> Kind:
    """Let a dataclass check its fields by their annotations, and by its own `__post_init__` after that.

    It stands below `@dataclass`. Texts, numbers and values of ours must be of exactly the stated class: a
    subclass could answer differently each time it is asked, or compare as it likes.
    """
    own: Callable[[Any], None] | None = kind.__dict__.get("__post_init__")

    def __post_init__(self: Any) -> None:  # noqa: N807  the name that dataclasses call
        made: Any = type(self)
        for name, fits, stated in _list_rules(made):
            value = getattr(self, name)
            if not fits(value):
                raise UsageError(
                    "SF-N118",
                    f"The field {name} of {type(self).__name__} cannot hold this.",
                    got=type(value).__name__,
                    stated=stated,
                )
        if own is not None:
            own(self)

    kind.__post_init__ = __post_init__
    return kind


def require_field(holds: bool, value: object, name: str, needed: str) -> None:
    """Refuse a value whose field is of the right type and cannot be right."""
    if not holds:
        kind = type(value).__name__
        raise UsageError("SF-N118", f"The field {name} of {kind} cannot hold this.", needed=needed)


def require_positive(value: object, *names: str) -> None:
    """Refuse a value of which one of these fields is below 1."""
    for name in names:
        require_field(getattr(value, name) >= 1, value, name, "1 or more")


@cache
def _list_rules(kind: type[Any]) -> tuple[tuple[str, Test, str], ...]:
    hints = get_type_hints(kind)
    return tuple((each.name, _make_test(hints[each.name]), str(each.type)) for each in fields(kind))


def _make_test(hint: Any) -> Test:
    """Return a function that tells whether a value is of a type as annotated; protocols are not told."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return lambda value: value is None
    if origin in (Union, types.UnionType):
        # Classes that are meant exactly are looked up at once.
        exact = frozenset(each for each in parts if _is_exact(each))
        tests = [_make_test(each) for each in parts if each not in exact]
        return lambda value: type(value) in exact or any(test(value) for test in tests)
    if origin is tuple:
        return _make_tuple_test(parts)
    if origin is Literal:
        return lambda value: type(value) is str and value in parts
    kind = origin or hint
    if _is_exact(kind):
        return lambda value: type(value) is kind
    if hint is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return lambda value: True
    return lambda value: isinstance(value, kind)


def _is_exact(kind: Any) -> bool:
    """Return whether a class is meant exactly, without subclasses."""
    if not isinstance(kind, type) or issubclass(kind, Enum) or getattr(kind, "_is_protocol", False):
        return False
    return is_dataclass(kind) or kind.__module__ in _EXACT


def _make_tuple_test(parts: tuple[Any, ...]) -> Test:
    if len(parts) == 2 and parts[1] is Ellipsis:
        every = _make_test(parts[0])
        return lambda value: type(value) is tuple and all(map(every, value))
    tests = [_make_test(each) for each in parts]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(tests)
        and all(test(each) for test, each in zip(tests, value, strict=True))
    )


_EXACT = frozenset({"builtins", "fractions", "datetime"})
"""Modules whose classes are meant exactly: a bool is no int here, and a datetime is no date."""
