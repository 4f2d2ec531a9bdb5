"""What comes back: quotes before paying, and releases with estimates and confidence intervals after.

Everything here is computed from noisy answers and public facts, so nothing here has a price, and any of it
may be changed without touching a guarantee.
"""
