"""A quote as people see it: the price, the error of each number, what will be left, or why it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.errors.numbers import format_bound, format_number
from sfumato.server.pages.rendering import show_left, show_share

_BIAS = "Estimated bias: "
"""How the bias of picked bounds begins, which has a line of its own here."""


@dataclass(frozen=True, slots=True)
class QuoteView:
    """A quote as a page shows it."""

    price: str
    """Whose quota pays, in words; empty for the visitor's own."""
    admitted: bool
    free: bool
    free_because: str
    """Why it costs nothing, in words, if it does."""
    errors: list[tuple[str, str]]
    """Each number of the answer, and its expected error."""
    notes: list[str]
    """What should be known before it is paid for: answers that say nothing, and bounds that nobody chose."""
    left: str
    left_after: str
    spent_share: float
    """Share of what was left before that the question would take."""
    picked: list[tuple[str, str]]
    """What was picked for the question and what that leaves out, where its bounds were picked privately."""
    bias: list[str]
    warning: str
    slot: str
    why_not: str
    """Why the question would be refused; empty if it would not."""
    text: str


def view_quote(quoted: dict[str, Any]) -> QuoteView:
    """Return what a page shows of a quote, whatever kind of question it is for and whoever pays."""
    left, after = quoted.get("left"), quoted.get("left_after")
    admitted, free = bool(quoted["admitted"]), bool(quoted["free"])
    share = 0.0 if not left or after is None else max(0.0, 1 - after / left)
    slot = quoted.get("slot")
    return QuoteView(
        price=str(quoted.get("price") or "nothing"),
        admitted=admitted,
        free=free,
        free_because=f"nothing: {quoted.get('free_because') or 'it was answered before'}",
        errors=_list_errors(quoted),
        notes=list(quoted.get("notes") or ()),
        left="" if left is None else f"ε = {show_left(left)}",
        left_after=""
        if after is None
        else f"ε = {show_left(after)} ({show_share(1 - share)} of what is left now)",
        spent_share=share,
        picked=_list_picked(quoted.get("picked")),
        warning=quoted.get("warning", ""),
        bias=[each for each in quoted.get("bias") or () if not each.startswith(_BIAS)],
        slot="" if slot is None else f"{format_number(slot, 6)} s",
        why_not="" if admitted else _explain_refusal(quoted, left),
        text=str(quoted.get("text", "")),
    )


def _list_picked(picked: dict[str, str] | None) -> list[tuple[str, str]]:
    return [] if picked is None else [("picked", picked["picked"]), ("estimated bias", picked["bias"])]


def _list_errors(quoted: dict[str, Any]) -> list[tuple[str, str]]:
    """Return each number with its error in words: that of a quantile is in ranks and not in its unit."""
    if quoted.get("errors"):
        return [(name, f"{error} {note}".rstrip()) for name, error, note in quoted["errors"]]
    errors = quoted.get("expected_error") or {}
    return [(name, _write_error(half)) for name, half in errors.items()]


def _write_error(half: float | None) -> str:
    return "known with the answer" if half is None else f"± {format_number(half)}"


def _explain_refusal(quoted: dict[str, Any], left: float | None) -> str:
    if quoted.get("unpaid"):
        asked = quoted["unpaid"]
        return f"Tuning would leave too little for the question at {asked}. Spend less on one of them."
    rest = "" if left is None else f" ε = {format_bound(left, up=True)} is left at most."
    price = quoted.get("price", "this")
    return f"Not enough is left for {price}.{rest} Spend less, or ask the steward for more."
