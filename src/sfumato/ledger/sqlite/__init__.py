"""The ledger in one SQLite file, for one machine. The files have the same names as in `postgres`.

Only here: `files` notices when the file is exchanged, and `backup` copies it.
"""
