"""Asking a model: one request and one reply, whoever answers."""
