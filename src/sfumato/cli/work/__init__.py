"""Commands around questions: requests for budget, charges for other tools, packages, feeds.

They translate what was typed into calls of the lab, and decide nothing.
"""
