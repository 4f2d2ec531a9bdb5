"""What a function takes only where it is typed in, and never computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Listed, Numbers
from sfumato.engines.values import Constant
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.lower.lowered_value import LoweredValue


def require_typed_integer(part: LoweredValue, what: str, allowed: range) -> int:
    """A whole number that was typed in."""
    domain = part.domain
    if (
        isinstance(part.value, Constant)
        and isinstance(domain, Numbers)
        and domain.step == 1
        and domain.low in allowed
    ):
        return domain.low
    raise PolicyError(
        "SF-Q135", f"{what} is a whole number typed in.", allowed=f"{allowed[0]} to {allowed[-1]}"
    )


def require_typed_text(part: LoweredValue) -> str:
    if (
        isinstance(part.value, Constant)
        and isinstance(part.domain, Listed)
        and part.domain.values
        and isinstance(part.domain.values[0], str)
    ):
        return part.domain.values[0]
    raise PolicyError("SF-Q135", "A text typed in is expected here.", try_="CONTAINS(note, 'pain')")
