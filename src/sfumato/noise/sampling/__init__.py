"""Random bits and exact samplers, below the mechanisms; nothing else in the package draws privacy noise.

Samplers answer from a few random bits where these decide the answer, and draw more bits where they do not, so
the law of every draw is exact. They know no mechanism, no sensitivity and no ε.
"""
