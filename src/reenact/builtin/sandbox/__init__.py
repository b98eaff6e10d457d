"""The sandbox of `shell`: what a command may touch, and how nothing of it outlives its call.

In comes a job (a command, its environment, the workspace, limits), out come exit code and outputs. `running` starts
`launch.py` for it, a Python program of its own with an empty environment; in that, `supervisor` reads the job, confines
the command (`bubblewrap`, or `landlock`, `seccomp` and `namespaces`) and watches over it until nothing of it is left.
`backends` says which of them this system has, `enforced` what they enforce. Begin with `running`, then `supervisor`.

What runs in the launcher (`launch`, `supervisor` and what they import) imports nothing of Reenact outside this folder.
"""
