"""The ledger in one SQLite file, for one machine."""
