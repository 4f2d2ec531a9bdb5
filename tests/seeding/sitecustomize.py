"""Python imports this when it starts, because tests put this folder on PYTHONPATH: seed what they start."""

from seeded import follow_environment

follow_environment()
