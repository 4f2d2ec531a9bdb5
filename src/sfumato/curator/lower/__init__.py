"""Questions into engine programs, with the protected unit followed through every step."""
