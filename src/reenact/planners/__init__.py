"""From a goal to a pinned plan."""
