"""What the steward published: answers and tables for everyone, as files and in a mirror."""
