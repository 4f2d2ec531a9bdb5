"""Privacy loss distributions of runs fixed in advance, and their composition with certified bounds.

`distribution` knows the events, `atoms` and `masses` put losses on a grid, `convolution` composes them. Every
rounding error is bounded (docs/proofs/curves.md); nothing here decides whether a question is admitted.
"""
