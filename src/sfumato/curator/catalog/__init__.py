"""What the steward promised: tables, columns, bounds, public facts, publications."""
