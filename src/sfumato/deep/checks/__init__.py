"""What is refused before a run, and what is checked while it goes on."""
