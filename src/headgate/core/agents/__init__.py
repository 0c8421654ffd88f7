"""Agents: which kind a command line starts, how to resume it, its output, when it is ended.

profile             what is known about one kind of agent, as data
find_profile        which profile a command line has, and the model and session it names
command_wrappers    the program behind `env`, `timeout`, `npx` and such
resume_command      the command line that goes on with a session
given_session       an id of ours for a session that nobody would know otherwise
output_lines        what one line of output tells
readable_events     the events of known agents as lines that people read
silence_hint        how to make an agent talk that prints nothing while it works
watch_verdict       what it is told of requests, and what it says
agent_watch         the watch over one run: is it refused, does it go on, must it be ended
meters              how an agent is counted and watched, and the way to its requests
replaced_variables  what a wire has replaced in an agent's environment
run_limits          when an agent is ended, and what then happens to its job
"""
