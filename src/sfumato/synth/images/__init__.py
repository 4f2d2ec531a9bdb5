"""Labelled images and vectors: Gaussians per class, a generator of a mean embedding, a diffusion model.

What reads rows is in class_moments.py, mean_embedding.py and diffusion_kernel.py; everything else here is
post-processing.
"""
