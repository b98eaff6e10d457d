"""Pure decisions: facts in, decision out. No clock, no I/O, no randomness."""
