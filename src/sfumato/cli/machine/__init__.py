"""The command about what is missing on the machine."""
