"""Pages about long work and what came of it: models, synthetic tables and streams."""
