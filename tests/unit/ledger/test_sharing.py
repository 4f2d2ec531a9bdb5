"""Who leads when leaders come and go within one process."""

from __future__ import annotations

from typing import Any
from weakref import WeakMethod

from sfumato.ledger.sharing import SharedWriting


class _Place:
    def describe(self) -> list[Any]:
        return ["a place of this test", id(self)]

    def announce(self, badge: int) -> bool:
        return True

    def is_announced(self, badge: int) -> bool:
        return True

    def write(self, *_: Any) -> Any:
        raise AssertionError


def test_whoever_led_before_can_ask_the_next_leader() -> None:
    """Its own thread has ended by then, and is not started again."""
    place = _Place()
    write = WeakMethod(place.write)
    first, second = SharedWriting(), SharedWriting()
    try:
        assert first._find_leader(place, write) is None
        assert first._leader is not None
        first._leader.stop()
        first._leader.join(5)
        assert second._find_leader(place, write) is None
        assert second._leader is not None
        assert second._leader.is_leading()
        assert first._find_leader(place, write) is not None
    finally:
        first.stop()
        second.stop()
