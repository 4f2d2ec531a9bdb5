"""Sums of clipped gradients, without one gradient per example wherever a formula gives its norm.

`clipped_sum` puts a step together; `calls` listens to the layers of a module as the user wrote it; each other
file knows the gradients of one kind of layer, and `by_vmap` those of every other kind.
"""
