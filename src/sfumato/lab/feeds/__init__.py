"""Answers that were released, as tables at fixed addresses, for programs that fetch them again and again.

Nothing here can charge: a feed is a copy of an answer that somebody paid for, and reading it asks
nothing.
"""
