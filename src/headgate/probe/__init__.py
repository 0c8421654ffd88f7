"""Finds how many copies of a command a machine can run, or how many requests an account accepts.

run_copies  some copies of a command at once: how long they took, what they took, how they ended
search      what the rounds say: which number to try next, and which one to recommend
machine     round after round, until it is known how many copies a machine carries
ask         the smallest request that an API takes, and what became of it
account     one more request at a time, until an account refuses one

The copies are real runs, and the requests are real requests: both cost what they cost.
"""
