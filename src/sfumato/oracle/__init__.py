"""The statistical-query oracle: what learners may ask of rows they never see.

Start at protocol.py; over_arrays.py, over_tables.py and row_layout.py answer. This room stands on the
curator and knows no learner, so synthesis, streams and deep nets can ask it too.
"""
