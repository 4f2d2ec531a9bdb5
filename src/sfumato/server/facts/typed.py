"""Numbers and names as people type them into forms."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sfumato.errors import UsageError


def read_typed_number(typed: str, name: str) -> Decimal:
    """Return the number that was typed into a field, exactly; refuse what is none, by the field's name."""
    try:
        number = Decimal(typed.strip().replace("−", "-"))
    except InvalidOperation:
        raise wrong_field_error(name, "a number such as 0.5") from None
    if not number.is_finite() or abs(number.adjusted()) > 100:
        raise wrong_field_error(name, "a number such as 0.5")
    return number


def read_optional_number(typed: str, name: str) -> Decimal | None:
    """Return the number that was typed, or None where the field is empty."""
    return read_typed_number(typed, name) if typed.strip() else None


def read_typed_whole(typed: str, name: str) -> int:
    """Return the whole number that was typed into a field; refuse what is none, by the field's name."""
    said = typed.strip()
    if not (said.isascii() and said.isdigit() and len(said) < 13):
        raise wrong_field_error(name, "a whole number such as 20")
    return int(said)


def split_names(typed: str) -> list[str]:
    """Return the names that were typed, one a line or with commas between them."""
    lines = typed.splitlines() if "\n" in typed.strip() else typed.split(",")
    return [each.strip() for each in lines if each.strip()]


def wrong_field_error(name: str, example: str) -> UsageError:
    """Return the refusal of a field that is empty or cannot be read."""
    return UsageError("SF-W183", f"{name}: this is empty or cannot be read.", try_=example)
