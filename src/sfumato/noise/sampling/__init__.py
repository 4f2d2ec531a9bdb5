"""Random bits and exact samplers, below the mechanisms. Nothing else draws randomness."""
