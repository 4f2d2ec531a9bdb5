"""Ready networks in scikit-learn's manner: how rows are read, which network they get, how it is trained.

Everything is chosen by declarations and public numbers; training itself is the trainer's.
"""
