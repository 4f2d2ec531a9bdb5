"""What an outsider can hold against a ledger: commitments to answers, signed heads, and receipts.

Hashed and signed texts never change: receipts that were given away must be found for ever.
"""
