"""A/B experiments: who is in which arm, what differs, and how many users that takes; NumPy and SciPy only."""
