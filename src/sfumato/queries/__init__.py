"""SQL and frames into questions: plain values that the curator can price."""
