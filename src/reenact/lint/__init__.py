"""Finds code that decides on what may differ between two runs."""
