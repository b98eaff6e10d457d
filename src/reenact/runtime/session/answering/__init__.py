"""Answering from the record: a program that is started again gets what it got before, and makes only what is new.

In: what a program asks for, and the record of its session. Out: recorded calls, or `Diverged`. Begin to read with
`answers.py`; `lanes.py` is what calls are named by, `told.py` turns, exit codes, times and random numbers, `in_test.py`
holds today's tools against a recording.
"""
