"""Checks evidence it did not write. Imports no store, no runtime, no replay."""
