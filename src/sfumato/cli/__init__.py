"""The command line: it translates what is typed into calls of a lab, and decides nothing itself.

One module for each kind of user: steward, analyst (questions), auditor (ledger); and the demo.
"""
