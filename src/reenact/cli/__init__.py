"""Parse, call one function, print."""
