"""Record once, replay in tests."""
