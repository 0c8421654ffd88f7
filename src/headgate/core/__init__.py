"""The rules. Pure values in, pure values out: no I/O, no clock, no randomness of its own.

keys        what work uses (`anthropic/claude-opus-4-6`) and the patterns that pools are named by
amounts     durations and priorities as people write them
pools       what is said about a pool, in layers, and what follows from it
line        who is next, and why the others are not
profiles    kinds of agents: their models, sessions and output, as data
terms       on which terms an agent runs
vigil       the watch over an agent's output
views       frozen answers: status, capacity, queue
"""
