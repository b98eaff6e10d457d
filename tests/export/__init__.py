"""Evidence that leaves its store, and evidence that somebody changed in it."""
