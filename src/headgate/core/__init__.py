"""The rules. Pure values in, pure values out: no I/O, no clock, no randomness of its own.

admission      what a pool is, which setting wins, who is next and why the others are not
learning       how a pool finds its limit, and what upstream's own count says
answers        what a response of upstream, or a line of an agent, says about capacity
agents         kinds of agents, their command lines, the watch over their output
jobs           the states of a job, and when an agent is ended
host           how much one machine can carry
stored_text    what is kept as text in a store
views          what people and programs are shown
"""
