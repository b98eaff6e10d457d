"""Where the journal is kept: artifact and transition in one transaction, fenced leases."""
