"""What is asked, as frozen values: relations (which rows) and measurements (what of them).

Names are the analyst's own, and nothing is looked up yet. What is hashed carries a tag, which never changes;
the classes themselves may be renamed.
"""
