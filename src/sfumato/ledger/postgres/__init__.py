"""The ledger in a PostgreSQL schema, for several machines."""
