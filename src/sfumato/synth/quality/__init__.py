"""How good synthetic data are, by released numbers and drawn rows.

Start at report.py. Nothing here sees real rows.
"""
