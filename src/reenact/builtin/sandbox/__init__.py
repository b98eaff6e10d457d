"""The sandbox of `shell`: what a command may touch, and how nothing of it outlives its call.

In comes a job: a command, its environment, the workspace, limits. `running` starts `launch.py` for it, a Python program
of its own with a clean environment, which reads the job, confines (`bubblewrap`, or `landlock`, `seccomp` and
`namespaces`) and watches over the command until nothing of it is left. `backends` says which of them this system has.

What runs in the launcher (`launch`, `supervisor` and what they import) imports nothing of Reenact outside this folder.
"""
