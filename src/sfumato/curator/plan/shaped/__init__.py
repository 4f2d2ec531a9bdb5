"""Sums that one row moves together, and noise with the shape of what a row can do to them.

`shapes` and `gaussian_shapes` find coordinates for what rows add, and `shaped_sum`
measures them. Tags are kept in answers and never change.
"""
