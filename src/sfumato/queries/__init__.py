"""SQL and frames into questions: plain values that the curator can lower and price.

Only this room parses SQL, and it reads a closed list of nodes: whatever else a node carries is refused.
Nothing of the analyst's text goes further than names and constants.
"""
