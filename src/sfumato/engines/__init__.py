"""Engines hold prepared snapshots and answer programs with exact integers.

Each engine is one folder with the same file names; `program.py` says what all of them are asked.
"""
