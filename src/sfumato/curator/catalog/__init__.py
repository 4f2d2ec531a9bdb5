"""What the steward declared: tables, columns and their domains, public facts, publications.

All of it is public, in files that are replaced as a whole. Only `public_facts` counts rows, and only where
their number is public. Domains are hashed under tags, which never change.
"""
