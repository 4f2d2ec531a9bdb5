"""Pipelines: steps that are checked before they are fitted, on own arrays and behind the curator.

`checked.py` refuses steps that learn without noise, `stages.py` reads what a pipeline does to which columns,
`lowered.py` writes fitted steps as integers of a row, and `tables.py` fits pipelines on a table.
"""
