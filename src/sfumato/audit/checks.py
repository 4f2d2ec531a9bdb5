"""A check for the test suites of other projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.audit.entry import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.audit.verdict import Verdict
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number


def assert_private(target: Callable[[Any], Any], claim: Event | Number, **options: Any) -> Verdict:
    """Raise AssertionError with the whole verdict if `run` breaks the claim; return the verdict if not.

    The options are those of `run`. A true claim fails with probability `alpha` at most, 10⁻⁴ unless stated.
    """
    verdict: Verdict = run(target, claim, **options)
    if verdict.violates:
        raise AssertionError(f"The privacy claim is broken.\n{verdict}")
    return verdict
