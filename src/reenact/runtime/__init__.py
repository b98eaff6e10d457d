"""Facts being made: gates, dispatch, drive, sessions."""
