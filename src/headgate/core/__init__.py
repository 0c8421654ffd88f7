"""The rules. Pure values in, pure values out: no I/O, no clock, no randomness of its own.

admission             what a pool is, which setting wins, who is next and why the others are not
learning              how a pool finds its limit, and what upstream's own count says
answers               what a response of upstream, or a line of an agent, says about capacity
wire                  what a request to a model and its answer say, as their bytes pass
agents                kinds of agents, their command lines, the watch over one, when it is ended
jobs                  what a job is, its states, and what changes them
host                  how much one machine can carry
stored_text           what is kept as text in a store
display               what people and programs are shown
rate_limits           requests and tokens a minute, and the time between two starts
roles                 what work is done as, as in reviewer
key_patterns          keys such as anthropic/claude-opus-4-6, and the patterns that name pools
pattern_overlap       which keys two names of pools have in common
likely_slips          names that are likely slips of the pen for others
user_patterns         regular expressions that users write, matched in linear time
quantities            durations, priorities, limits, weights and sizes, as people write them
printable_text        text that a terminal cannot take for a command
times                 milliseconds and seconds as different types
wall_clock            whether to believe what the wall clock says of the time the machine was off
events                every kind of event, with a sentence
reasons               every reason code, with a sentence
environment           every environment variable, with a sentence
notification_targets  who is told of which events
install_hint          how to install what is missing
table_fields          what a table of named fields can have in it: configuration, batch, scenario
server_settings       where the server listens, whom it answers, and what a caller may do
urls                  which URLs can be asked, taken apart
proxy_settings        which proxy the environment names for a host
named_tuple           `typing.NamedTuple`, cheaper to load
"""
