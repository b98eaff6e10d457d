"""A package whose helpers read forbidden fields for people."""
