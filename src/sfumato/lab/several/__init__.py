"""Several questions that are charged once, and whose answers agree with each other."""
