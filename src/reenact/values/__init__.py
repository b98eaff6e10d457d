"""What bytes mean: canonical JSON, digests, and the only door to time, ids and randomness."""
