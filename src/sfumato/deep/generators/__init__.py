"""Generators that are trained on what was released, without any row: all of it is post-processing."""
