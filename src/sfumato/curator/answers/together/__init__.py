"""Noisy marginals put together: numbers that agree with each other, and the law of their noise.

This is post-processing of what the ledger keeps.
"""
