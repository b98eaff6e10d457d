"""Facts made again: where an effect comes from, and what is compared."""
