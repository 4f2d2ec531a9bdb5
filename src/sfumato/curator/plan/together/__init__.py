"""Sums by several sets of keys that are measured together: which marginals, with which part of the spend.

Everything here follows from public facts: keys, sensitivities and the spend.
"""
