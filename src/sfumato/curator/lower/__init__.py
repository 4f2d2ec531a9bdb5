"""Lowering: questions in the analyst's names become programs for engines, with units and bounds followed.

Bounds, steps and grids follow from declarations and from the question, never from data. An SQL function is
added in `functions`; a change to what is lowered changes programs, and so prices and request hashes.
"""
