"""Trees: a decision tree that splits by information gain, and gradient boosting over random trees.

`random_trees` draws splits by public coins and finds the leaf of a row; the two estimators say what they ask
of the oracle. Noise and prices are the oracle's: splits may be changed here, and no privacy with them.
"""
