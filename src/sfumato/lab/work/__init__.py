"""The work around questions: charges for other tools' releases, requests for budget, packages.

Nothing here reads rows, and nothing here is a budget: every amount is an account of the ledger.
"""
