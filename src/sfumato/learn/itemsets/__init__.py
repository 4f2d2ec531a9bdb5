"""Frequent itemsets and association rules."""
