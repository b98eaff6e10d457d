"""Shadow runs: a candidate decides beside a recorded or a live run, and executes nothing.

In come a recording and what the candidate changes; out comes a report of both sides. Begin with `shadow.py`;
`candidate.py` reads what may be given, `source.py` serves or assumes what calls come to, `live.py` listens.
"""
