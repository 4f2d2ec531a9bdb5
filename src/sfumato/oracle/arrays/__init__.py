"""One's own arrays as exact integers: clipped to declared bounds, transformed, and summed by NumPy.

Every value means what an engine would compute, so that learners do not know where their rows come from.
"""
