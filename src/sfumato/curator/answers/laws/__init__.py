"""Exact laws of what noise adds to a number: single draws, and sums of them on a lattice.

Nothing here protects anyone: these laws only say how far off an answer may be that was already given.
"""
