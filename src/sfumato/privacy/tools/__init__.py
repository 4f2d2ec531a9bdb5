"""Tools over events and accounts: the odometer, plans of noise, profiles, and converters for other libraries.

They decide nothing: what is admitted is decided by privacy/account.py alone.
"""
