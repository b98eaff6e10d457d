"""Reenact: crash-safe tool calls for AI agents, recorded, replayable, provable."""
