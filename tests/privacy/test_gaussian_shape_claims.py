"""Gaussian noise in the shape of what a row does, replayed on neighbours; too small a width is caught."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.audit.catalogue import doors
from sfumato.curator.plan.shaped import gaussian_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def half_width(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Widths that are half as long as what a row does: a mistake of the planner."""
    monkeypatch.setattr(gaussian_shapes, "_root_up", lambda square: int(square**0.5) // 2)
    gaussian_shapes._shape.cache_clear()
    yield
    gaussian_shapes._shape.cache_clear()


@pytest.mark.parametrize("name", doors.SHAPED)
def test_shaped_questions_keep_their_price(name: str) -> None:
    found = doors._ask_gaussian(doors.SHAPED[name])
    assert found.finding is None
    assert found.reached > 0.9


@pytest.mark.parametrize("name", doors.SHAPED)
def test_too_small_a_width_is_found(name: str, half_width: None) -> None:
    assert doors._ask_gaussian(doors.SHAPED[name]).finding is not None
