"""A second writer of the formats, built from values alone: what vectors and examples are made with."""
