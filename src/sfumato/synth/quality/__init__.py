"""How good synthetic data are, by released numbers and drawn rows, or by a measurement that is charged.

Start at report.py. Only check_kernel.py sees rows, behind the gate or on own frames.
"""
