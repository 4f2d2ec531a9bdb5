"""Surveys whose answers people randomize themselves: terms, charges, invitations, answers, results.

What arrives here is randomized already, so nothing in this folder ever holds a truth. A round is charged
before it is opened, and no answer is taken in a round that is not open.
"""
