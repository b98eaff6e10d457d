"""The first hour with a library: the same small agent for Reenact, DBOS and LangGraph, and what was counted in each."""
