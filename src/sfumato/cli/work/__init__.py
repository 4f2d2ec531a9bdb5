"""Commands around questions: requests for budget, charges for other tools, packages, mirrors.

They translate what was typed into calls of the lab, and decide nothing.
"""
