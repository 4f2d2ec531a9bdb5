"""Choosing among experts over time, with every loss vector protected (docs/experts.md).

`game.py` is what users hold; each other module is one way to choose, a frozen value with its price and its
bound on regret. All take losses in whole steps of one grid, so that draws are exact.
"""

__all__: list[str] = []
