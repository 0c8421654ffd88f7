"""Finds out how many are too many, by trying it with care.

copies    some copies of a command at once: how long they took, what they took, how they ended
judge     what the rounds say: which number to try next, and which one to recommend
machine   round after round, until it is known how many copies a machine carries
ask       the smallest request that an API takes, and what became of it
account   one more request at a time, until an account refuses one

The copies are real runs, and the requests are real requests: both cost what they cost.
"""
