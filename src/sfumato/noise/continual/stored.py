"""Mechanisms and checkpoints of streams as text that every version and machine reads alike.

A factor is planned by floating point, so another machine might plan another one. What a stream was begun with
is written down, and never planned again.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.noise.continual.running_sums import NoiseCheckpoint, NoiseGrid, RunningSums, TickScales
from sfumato.noise.continual.toeplitz import BufferedToeplitz

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1


def write_mechanism(plan: RunningSums) -> str:
    """Return a mechanism as text, with all that was planned for it. Nothing in it is secret."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "multiplier": str(plan.multiplier),
        "horizon": plan.horizon,
        "contribution": plan.contribution,
        "participations": plan.participations,
        "separation": plan.separation,
        "cells": plan.cells,
        "poles": _write_doubles(plan.factor.poles),
        "zeros": _write_doubles(plan.factor.zeros),
        "starts": list(plan.scales.starts),
        "scales": _write_doubles(plan.scales.values),
        "steps": plan.grid.steps,
        "sigma": str(plan.grid.sigma),
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def read_mechanism(text: str) -> RunningSums:
    """Return the mechanism that a text says, with nothing planned anew."""
    fields = json.loads(text)
    plan = RunningSums(
        Fraction(fields["multiplier"]),
        fields["horizon"],
        fields["contribution"],
        fields["participations"],
        fields["separation"],
        fields["cells"],
    )
    known = {
        "factor": BufferedToeplitz(_read_doubles(fields["poles"]), _read_doubles(fields["zeros"])),
        "scales": TickScales(tuple(fields["starts"]), _read_doubles(fields["scales"])),
        "grid": NoiseGrid(fields["steps"], Fraction(fields["sigma"])),
    }
    # Where cached properties keep what they computed.
    vars(plan).update(known)
    return plan


def write_checkpoint(kept: NoiseCheckpoint) -> str:
    """Return a checkpoint as text. It is as secret as the checkpoint."""
    fields = {
        "version": VERSION,
        "tick": kept.tick,
        "sums": list(kept.sums),
        "high": _write_doubles(high for high, _ in kept.filters),
        "low": _write_doubles(low for _, low in kept.filters),
        "precision": kept.precision.hex(),
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def read_checkpoint(text: str) -> NoiseCheckpoint:
    """Return the checkpoint that a text says."""
    fields = json.loads(text)
    pairs = zip(_read_doubles(fields["high"]), _read_doubles(fields["low"]), strict=True)
    precision = float.fromhex(fields["precision"])
    return NoiseCheckpoint(fields["tick"], tuple(fields["sums"]), tuple(pairs), precision)


def _write_doubles(numbers: Iterable[float]) -> list[str]:
    return [float(number).hex() for number in numbers]


def _read_doubles(texts: Iterable[str]) -> tuple[float, ...]:
    return tuple(map(float.fromhex, texts))
