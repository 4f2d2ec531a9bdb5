"""Pages about people and their work: requests for budget and their answers, and quotas."""
