"""Runs the calls that the refusal of a query over groups names, as somebody pastes them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from sfumato.errors import SfumatoError


def run_calls(session: Any, refused: SfumatoError, epsilon: str = "0.1") -> Any:
    """Return what the last call gives. All but ε is as the refusal says."""
    names: dict[str, Any] = {"s": session, "pa": pa, "duckdb": duckdb}
    *first, last = refused.facts["try"].replace("epsilon=0.1", f"epsilon={epsilon}").split("; ")
    for call in first:
        exec(call, names)
    return eval(last, names)
