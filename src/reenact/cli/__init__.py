"""The `reenact` command line: each command parses its arguments, calls one function, and prints.

`main` holds the table of commands and loads a command's module only when it is called; `options` has what several of
them take. `commands/` holds the commands by what they are about, `screens/` turns documents and notices into lines, and
`demo/` is `reenact demo`. In come arguments, out come lines or one JSON document on stdout, remarks on stderr, and an
exit code of `exits`. Nothing is decided here. Begin with `main`, then `commands/runs/run.py`.
"""
