"""Convex losses: gradients, descent, perturbation, convergence."""
