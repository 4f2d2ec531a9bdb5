"""Commands about the machine: what is missing on it, and completion for its shells."""
