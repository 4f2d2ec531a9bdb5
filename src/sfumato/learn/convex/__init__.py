"""Convex losses and their private minimisation: noisy gradient descent, output and objective perturbation.

`losses` and `problems` are mathematics without data; `score_gradients` and `descent` ask the oracle for noisy
gradients; `perturbation`, `convergence` and `objective_release` add noise of their own, so privacy rests on
them and on docs/proofs/convex.md: change them together.
"""
