"""The curator: what the steward promised, what is asked, what it costs, and the one door to the data."""
