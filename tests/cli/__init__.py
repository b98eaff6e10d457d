"""The command line, as a user meets it: processes, exit codes, what is printed where."""
