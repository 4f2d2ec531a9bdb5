"""What comes back: estimates, confidence intervals, post-processing, releases and quotes."""
