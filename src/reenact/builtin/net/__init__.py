"""HTTP for skills: guarded against reaching what a plan did not allow, bounded in time and size."""
