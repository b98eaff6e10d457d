"""What a server in trouble does to those who work on a store there, and what they are told of it."""
