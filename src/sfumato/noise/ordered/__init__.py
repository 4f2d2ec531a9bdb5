"""Mechanisms over cells that have an order: quantiles, the rows around them, and sums over ranges."""
