"""Values of rows and sums over them, computed by NumPy in whole numbers that are those of SQL.

Own arrays are summed here, and so are programs of a fit whose SQL would take longer to plan than to run.
"""
