"""The tools an agent really uses, as skills."""
