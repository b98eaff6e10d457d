"""Answering from the record: a program that is started again gets what it got before, and makes only what is new.

In: what a program asks for, and the record of its session. Out: recorded calls, or `Diverged`. Begin to read with
`answers.py`; `calls.py` are the calls that are asked for and recorded, `lanes.py` is what they are named by, `told.py`
turns, exit codes, times and random numbers, `telling.py` the words of a difference, `turns.py` the order in which
answers are given, `forking.py` how a program goes on as another run;
`in_test.py` holds today's tools against a recording.
"""
