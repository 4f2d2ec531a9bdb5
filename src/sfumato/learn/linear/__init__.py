"""Linear models: logistic regression, support vector classifiers, any convex loss, least squares.

Each file says what it asks of the oracle and is plain NumPy after that. Losses, gradients, descent and
perturbation are in `learn/convex`; privacy is priced there and in `oracle`, never here.
"""
