"""Lint, and the view of an outcome that decision code gets."""
