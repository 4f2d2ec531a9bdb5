"""Keeping linear algebra to one thread, for learners too, which import nothing of engines."""

from __future__ import annotations

from sfumato.engines.kernels.threads import use_one_thread

__all__ = ["use_one_thread"]
