"""Reenact: crash-safe tool calls for AI agents, recorded, replayable, provable."""

__version__ = "0.1.0"
