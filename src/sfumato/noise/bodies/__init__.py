"""Noise with the shape of what one row can do to several sums at once (docs/proofs/k-norm.md).

Independent noise protects sums as if a row could move each of them alone; here the sums of a cell share one
draw. All laws are those of whole numbers, drawn exactly, and the price is pure ε.
"""
