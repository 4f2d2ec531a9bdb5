"""Released answers over HTTP at fixed addresses: CSV, Parquet, JSON, and OData for spreadsheets.

A request here reads a stored table. It asks no question, so it can neither charge nor reach rows.
"""
