"""Pages for everyone, signed in or not: what is promised, and attacks that one can play."""
