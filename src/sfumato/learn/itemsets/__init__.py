"""Frequent itemsets and association rules, from noisy counts of transactions.

`estimators` are what people type, `mining` says what is asked in which round, `capped_counts` bounds what one
transaction adds and asks; privacy rests on `capped_counts` alone. `bases` and `count_estimates` see no data.
"""
