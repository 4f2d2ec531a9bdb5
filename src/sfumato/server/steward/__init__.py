"""What stewards and auditors do over HTTP: tables, grants, people, publications, and the ledger.

Functions take the context and plain values; the API and the pages call them.
"""
