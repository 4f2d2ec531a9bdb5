"""Names for generated people, so that a round can be read aloud."""

from __future__ import annotations

from typing import Final

NAMES: Final = (
    "Ada Abe Ben Bo Cleo Dev Edda Enzo Faye Gil Hana Ida Ivo Jun Kay Lea Lior Mai Milo Nia".split()  # noqa: SIM905
)
"""Twenty short names; whoever is called by one was drawn by a random number generator."""
