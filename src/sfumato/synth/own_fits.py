"""Who pays for a fit on own rows: an account, or nobody, and then fits are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.oracle.fit_tally import unaccounted_copy
from sfumato.oracle.guarantee import describe_fits

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.oracle.fit_tally import FitTally
    from sfumato.privacy.events import Event


def pay_for_own_fit(
    account: Any, fits: FitTally, event: Event, delta: Fraction, about: str, called: str = "fits"
) -> str:
    """Charge an account before own rows are read, or count the fit where there is none.

    Return what all fits of this object and its copies cost together, in words, where they were counted.
    """
    if account is not None:
        account.require([event])
        account.charge(event, about)
        return ""
    if fits.travelled:
        raise unaccounted_copy()
    return describe_fits(fits.add((event,)), delta, called)
