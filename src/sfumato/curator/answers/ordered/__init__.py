"""Answers about ranks: how far off quantiles are, where exact ones lie, and cumulative curves."""
