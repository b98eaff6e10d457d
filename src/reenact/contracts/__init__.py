"""What may be said: plans, artifacts, log entries, journal records, outcomes."""
