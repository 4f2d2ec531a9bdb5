"""Training in passes over the data with noise that is correlated over the steps (DP-FTRL)."""

__all__: list[str] = []
