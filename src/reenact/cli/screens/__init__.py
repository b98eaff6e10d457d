"""What commands print: lines with styles for a terminal, plain text for a pipe, JSON for programs.

In come documents, results and notices; out come lines, on stdout for results and on stderr for progress. `printing` is
underneath all of them and makes foreign text safe. Begin there, then `timeline_lines`.
"""
