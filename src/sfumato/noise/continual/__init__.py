"""Noise for running sums: correlated over time, drawn exactly (docs/proofs/continual.md)."""

__all__: list[str] = []
