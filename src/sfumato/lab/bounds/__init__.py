"""Bounds chosen privately: those of a table when it is registered, and those of one question.

Both are counts of units through the gate, charged first. What follows from the counts is post-processing.
"""
