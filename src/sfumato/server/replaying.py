"""Frames that were sent as steps, replayed on a session from a closed list of methods.

Steps are lists such as ["where", ["age >= 65"], {}]. Nothing that is sent names a method that is not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.lab.remote.expressions import decode_form, read_fraction
from sfumato.lab.remote.frames import FRAME_STEPS, GRAPH_STEPS, LAST_STEPS
from sfumato.queries.frames import Frame

if TYPE_CHECKING:
    from sfumato.lab.session import Session

MOST_STEPS = 50
MOST_ITEMS = 1_000
"""Items of a list of arguments, such as the edges of a histogram."""
MOST_TEXT = 20_000
"""Longest condition or expression, in characters."""
MOST_COUNTED = 10_000
"""Largest whole number of a step, such as the bins of a histogram, which are listed one by one."""
_MOST_JOINED = 8
"""Frames within frames."""
_MOST_NESTED = 8
"""Lists within lists."""


def replay_question(session: Session, table: str, steps: list[Any]) -> Any:
    """Return the question that the steps of a frame ask. Nothing is read or charged."""
    found = _replay(session, table, steps, _MOST_JOINED)
    if not hasattr(found, "release"):
        raise _steps_error(f"The last step asks a question: {', '.join(LAST_STEPS)}.")
    return found


def replay_frame(session: Session, table: str, steps: list[Any]) -> Frame[Any, Any]:
    """Return the frame that the steps lead to."""
    found = _replay(session, table, steps, _MOST_JOINED)
    if not isinstance(found, Frame):
        raise _steps_error("These steps do not lead to rows.")
    return found


def replay_rows(session: Session, rows: object) -> Any:
    """Return which rows a fit is about: the name of a table, or a frame."""
    match rows:
        case str():
            return rows
        case {"table": str() as table, "steps": list() as steps, **others} if not others:
            return replay_frame(session, table, steps)
    raise _steps_error("Rows are the name of a table, or a table with steps.")


def replay_graph(session: Session, name: str, steps: list[Any]) -> Any:
    """Return the question that is asked of a graph."""
    match steps:
        case [[str() as step, [], dict() as named]] if step in GRAPH_STEPS and not named:
            return getattr(session.graph(name), step)()
    raise _steps_error(f"A graph is asked for {' or '.join(GRAPH_STEPS)}.")


def _replay(session: Session, table: str, steps: list[Any], joined: int) -> Any:
    if len(steps) > MOST_STEPS or joined < 0:
        raise _steps_error("There are too many steps.")
    found: Any = session.table(table)
    for step in steps:
        found = _take_step(session, found, step, joined)
    return found


def _take_step(session: Session, frame: Any, step: Any, joined: int) -> Any:
    match step:
        case [str() as name, list() as arguments, dict() as named]:
            pass
        case _:
            raise _steps_error('A step is ["where", ["age >= 65"], {}].')
    given = [_read_argument(session, each, joined) for each in arguments]
    keywords = {each: _read_argument(session, value, joined) for each, value in named.items()}
    if name != "part" and any(
        isinstance(each, int) and each > MOST_COUNTED for each in (*given, *keywords.values())
    ):
        raise _steps_error("A step asks for too many of something.", most=f"{MOST_COUNTED:,}")
    try:
        if isinstance(frame, Frame) and name in (*FRAME_STEPS, *LAST_STEPS, "partition"):
            return getattr(frame, name)(*given, **keywords)
        if hasattr(frame, "ask") and name == "agg" and not given:
            return frame.agg(**keywords)
        if hasattr(frame, "ask") and name == "ask" and len(given) == 1 and not keywords:
            return frame.ask(_pair_up(given[0]))
        if hasattr(frame, "ask") and name == "part" and len(given) == 1 and not keywords:
            return frame[given[0]]
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError):
        # Other arguments than the method takes. It has read nothing: frames know public facts alone.
        raise _steps_error(f"{name}() does not take these arguments.") from None
    raise _steps_error("This step is not known here.", got=name[:40])


def _read_argument(session: Session, written: Any, joined: int, nested: int = _MOST_NESTED) -> Any:
    match written:
        case None | bool() | int() | float():
            return written
        case str() if len(written) <= MOST_TEXT:
            return written
        case list() if len(written) <= MOST_ITEMS and nested > 0:
            return [_read_argument(session, each, joined, nested - 1) for each in written]
        case {"number": str() as text, **others} if not others:
            return read_fraction(text)
        case {"frame": {"table": str() as table, "steps": list() as steps, **more}, **others} if not (
            others or more
        ):
            return _replay(session, table, steps, joined - 1)
        case {"question": {"table": str() as table, "steps": list() as steps, **more}, **others} if not (
            others
        ):
            return _replay_bounded(_replay(session, table, steps, joined - 1), more)
        case {"form": str()} | {"aggregate": str()}:
            return decode_form(written)
    raise _steps_error("An argument of a step has no form that is known.")


def _replay_bounded(question: Any, more: dict[Any, Any]) -> Any:
    """Return a question of a part, for which one unit counts as often as it says."""
    match more:
        case {} if not more:
            return question
        case {"bounded": {"groups": int() as groups, "rows": int() as rows, **others}, **rest} if not (
            others or rest
        ):
            return question.bounded(groups=groups, rows=rows)
    raise _steps_error("A question of a part has a table, steps, and how a unit is bounded.")


def _pair_up(written: Any) -> dict[Any, Any]:
    """Return which question each part is asked."""
    match written:
        case list() if all(isinstance(each, list) and len(each) == 2 for each in written):
            return dict(written)
    raise _steps_error("ask takes pairs of a part and its question.")


def _steps_error(sentence: str, **facts: str) -> UsageError:
    return UsageError(
        "SF-W104",
        sentence,
        **facts,
        known=", ".join((*FRAME_STEPS, *LAST_STEPS, "partition")),
        try_='{"table": "visits", "steps": [["where", ["age >= 65"], {}], ["count", [], {}]]}',
    )
