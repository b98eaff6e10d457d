"""ReplayControl alone."""
