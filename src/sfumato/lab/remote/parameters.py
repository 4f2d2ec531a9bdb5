"""Parameters of estimators and generators as JSON, by a closed list of names and values."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import UsageError
from sfumato.lab.remote.expressions import read_fraction

GENERATORS = ("MERF", "Marginals", "Moments", "Twin")
"""Generators of sf.synth that are fitted over HTTP. Others are refused in hostile sessions."""
LEFT_OUT = ("budget", "verbose")
"""Parameters that are not sent: who pays and what is printed is not the model's business."""
MOST_VALUES = 100_000
"""Values that the parameters of one model may be made of."""
MOST_LEVELS = 20
"""Lists within lists."""


def encode_model(model: Any) -> dict[str, Any]:
    """Return the name of an estimator or generator and its parameters, ready for JSON."""
    kind = type(model)
    name, room = kind.__name__, kind.__module__.split(".")[:2]
    if kind is not find_model_kind(name) or room not in (["sfumato", "learn"], ["sfumato", "synth"]):
        raise unknown_model_error(name)
    given = {each: getattr(model, each) for each in list_parameters(kind)}
    plain = {each: value for each, value in given.items() if each not in LEFT_OUT}
    return {"name": name, "parameters": {each: encode_value(value) for each, value in plain.items()}}


def decode_model(written: object) -> Any:
    """Return the estimator or generator that JSON names, with its parameters; all others are refused."""
    return _ModelReader().read_model(written, MOST_LEVELS)


def list_model_names() -> tuple[str, ...]:
    """Return the names of all that is fitted over HTTP."""
    from sfumato.learn import ESTIMATORS

    return (*sorted(ESTIMATORS), *GENERATORS)


def find_model_kind(name: str) -> type[Any] | None:
    """Return the class of a name on the closed list, or None."""
    if name in GENERATORS:
        from sfumato import synth

        return getattr(synth, name)  # type: ignore[no-any-return]
    from sfumato import learn

    return getattr(learn, name) if name in learn.ESTIMATORS else None


def list_parameters(kind: type[Any]) -> list[str]:
    """Return the names of the parameters of an estimator or a generator."""
    return [name for name in inspect.signature(kind).parameters if name != "self"]


def list_parameters_of(name: str) -> list[str]:
    """Return the names of the parameters of what is on the closed list, as they may be sent."""
    kind = find_model_kind(name)
    return [] if kind is None else [each for each in list_parameters(kind) if each not in LEFT_OUT]


def unknown_model_error(name: str) -> UsageError:
    """Return the refusal of what is not on the closed list."""
    return UsageError(
        "SF-E117",
        "Only estimators and generators of a closed list are fitted over HTTP.",
        got=name[:60],
        known=", ".join(list_model_names()),
    )


def encode_value(value: Any) -> Any:
    """Return a parameter as JSON; what JSON does not have is written as an object with one name."""
    if hasattr(value, "get_params") and type(value).__module__.startswith("sfumato.learn."):
        return {"model": encode_model(value)}
    if hasattr(value, "tolist"):
        return {"array": encode_value(value.tolist())} if getattr(value, "shape", ()) else value.item()
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"number": str(value)}
        case Fraction() | Decimal():
            return {"fraction": str(Fraction(value))}
        case list() | range():
            return [encode_value(each) for each in value]
        case tuple():
            return {"tuple": [encode_value(each) for each in value]}
        case dict():
            return {"pairs": [[encode_value(key), encode_value(each)] for key, each in value.items()]}
    raise UsageError(
        "SF-W104",
        "This cannot be sent to a server.",
        got=type(value).__name__,
        try_="numbers, texts, and lists of them",
    )


class _ModelReader:
    """Reads the parameters of one model, and counts what they are made of."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def read_model(self, written: object, levels: int) -> Any:
        match written:
            case {"name": str() as name, "parameters": dict() as given, **others} if not others:
                kind = find_model_kind(name)
            case _:
                raise _unreadable()
        if kind is None:
            raise unknown_model_error(name)
        known = [each for each in list_parameters(kind) if each not in LEFT_OUT]
        unknown = [str(each) for each in given if each not in known]
        if unknown:
            raise UsageError(
                "SF-E187", f"{name} has no parameter '{unknown[0][:60]}'.", known=", ".join(known)
            )
        values = {each: self.read_value(value, levels - 1) for each, value in given.items()}
        try:
            return kind(**values)
        except TypeError:  # a parameter without a default is missing
            raise _unreadable() from None

    def read_value(self, written: Any, levels: int) -> Any:
        self._left -= 1
        if levels < 1 or self._left < 0:
            raise _unreadable()
        match written:
            case None | bool() | int() | float() | str():
                return written
            case list():
                return [self.read_value(each, levels - 1) for each in written]
            case dict() if len(written) == 1:
                ((tag, inner),) = written.items()
                return self._read_tagged(tag, inner, levels - 1)
        raise _unreadable()

    def _read_tagged(self, tag: str, inner: Any, levels: int) -> Any:
        match tag, inner:
            case "tuple", list():
                return tuple(self.read_value(each, levels) for each in inner)
            case "array", list():
                return _make_array(self.read_value(inner, levels))
            case "pairs", list():
                return dict(self._read_pair(each, levels) for each in inner)
            case "fraction", str():
                return read_fraction(inner)
            case "number", "inf" | "-inf" | "nan":
                return float(inner)
            case "model", dict():
                return self.read_model(inner, levels)
        raise _unreadable()

    def _read_pair(self, pair: Any, levels: int) -> tuple[Any, Any]:
        match pair:
            case [str() | int() | float() | bool() as key, value]:
                return key, self.read_value(value, levels)
        raise _unreadable()


def _make_array(values: list[Any]) -> Any:
    import numpy as np

    try:
        made = np.array(values)
    except ValueError:  # rows of different lengths
        raise _unreadable() from None
    if made.dtype.kind not in "biufU":
        raise _unreadable()
    return made


def _unreadable() -> UsageError:
    return UsageError(
        "SF-W104",
        "The parameters of this model are not in a form that is known.",
        try_='{"name": "LogisticRegression", "parameters": {"epsilon": 0.5}}',
    )
