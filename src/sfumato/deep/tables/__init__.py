"""Training on tables behind the curator: what is charged, how rows become inputs, and what is released."""
