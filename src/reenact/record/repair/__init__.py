"""Repairing a file of JSON lines that was cut: REPLAY.jsonl, a bundle's files of lines, packed payloads.

In comes a file; out comes what is wrong with it, and on request the file up to its last whole line, with what was cut
kept beside it. Begin with `lines`.
"""
