"""Programs that make what is checked in: not installed, imported by tests only."""
