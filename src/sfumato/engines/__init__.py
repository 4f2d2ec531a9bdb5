"""Engines hold prepared snapshots and answer programs with exact integers.

`program.py` says what an engine is asked, `values.py` and `rows.py` what it may compute; `compile.py` writes
it as SQL. Each engine is one folder with the same file names; `registry.py` names those beside DuckDB.
"""
