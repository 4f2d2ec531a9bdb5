"""Synthetic tables of a lab: published ones with their cards, stand-ins, and labs to rehearse in.

Start at publishing.py. Nothing here reads rows: fits are charged at the gate, and the rest follows from them.
"""
