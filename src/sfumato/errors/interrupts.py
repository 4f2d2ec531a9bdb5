"""Finds Ctrl-C behind the error of a library that cleaned up after it."""

from __future__ import annotations


def find_interrupt(error: BaseException) -> BaseException | None:
    """Return the interrupt that led to an error, without its frames, which may hold exact numbers.

    An interrupt is Ctrl-C or the end of the process. Libraries that clean up after one may fail in doing so,
    and their error takes its place, so it is looked for among the causes too.
    """
    following: list[BaseException | None] = [error]
    seen: set[int] = set()
    while following:
        each = following.pop()
        if each is None or id(each) in seen:
            continue
        if not isinstance(each, Exception):
            each.__cause__ = each.__context__ = None
            return each.with_traceback(None)
        seen.add(id(each))
        following += [each.__context__, each.__cause__]
    return None
