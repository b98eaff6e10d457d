"""Archiving: the values of sealed runs are moved to verified bundles, and back.

In comes a store and where bundles are kept; out come bundles, and records of what was moved. Begin with `moving`.
"""
