"""The ledger in a PostgreSQL schema, for several machines. The files have the same names as in `sqlite`.

Only here: `address` reads what a steward types.
"""
