"""Declaring skills, the registry that resolves them, and the context they are given."""
