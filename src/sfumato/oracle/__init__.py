"""The statistical-query oracle: what learners may ask of rows they never see.

It stands on the curator and knows no learner; over arrays, over tables, over rows held in memory.
"""
