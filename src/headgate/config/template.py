"""The file that `headgate init` writes: it explains every setting and changes nothing."""

TEMPLATE = """\
# headgate's configuration. Every setting is optional; those behind a # show the defaults, so that
# this file as it stands changes nothing. A saved change is noticed without a restart. What is set
# with `headgate limits`, and HEADGATE_LIMITS in the environment, beat this file.

# A pool is a limit with a name, and work takes a seat in every pool whose name matches it:
#   host                           all work on one machine
#   anthropic                      all models of one provider
#   "anthropic/claude-opus-4-6"    one model
#   "anthropic/claude-opus-*"      a family of models; * is any text, ? is one character
# Names with . / * ? need the quotes.

[pools.host]
#limit = 3            # how many agents may run at once on one machine; "unlimited", or "auto" from
                      # RAM and cores: as many as fit at agent_memory each, at most 2 per core
#agent_memory = "512MiB"   # what one agent takes
#memory_floor = "off" # start nothing while less memory is free, as in "1GiB"; with limit = "auto"
                      # the default is a twentieth of RAM, at most 1 GiB
#load_ceiling = "off" # start nothing while the load per core is higher, as in 2.0

[pools."*/claude-opus-*"]
#limit = 4            # how many may use such a model at once; "unlimited", or "learn" to find out
#adapt = "learn"      # too many at once, says upstream: "learn" the limit anew, "step-down" by one
                      # until `headgate limits restore`, or "off" to pause and keep the limit
#cooldown = "2s"      # how long a freed seat rests, so that the provider's own count catches up;
                      # with adapt = "off", and on host, the default is "0s"
#spacing = "0s"       # at least this long between two starts
#max_hold = "off"     # end work that holds its seats longer than this; "12h" ends what hangs
#reserve = {}         # seats for one class of work, as in { interactive = 1 }; normal, background
#order = "oldest"     # who is next; "fair" lets tasks take turns, each with its own oldest
#observe = []         # agents that headgate did not start but that take seats: "agents" are the
                      # known ones, others are told by command line, with a regular expression,
                      # as in [{ process = "(^|/)robo( |$)" }]

# Some settings have no default. host takes none of them:
# rpm = 50            # requests a minute
# tpm = 40000         # tokens a minute
# per_task = 2        # the most that one task may hold at once
# warned_limit = 1    # the limit while the provider says that a quota is nearly gone
# queue_timeout = "5m"   # how long a request may wait for its seat, with meter = "requests"
# usage = { kind = "umans", url = "https://api.code.umans.ai/v1/usage", key_env = "UMANS_API_KEY" }
#
# usage is where upstream's own count is read; the key stays in the environment. The kinds:
#   umans, featherless    url
#   json                  url, used = "data.0.in_flight", and limit = "data.0.limit" if it is told
#   python                call = "package.module:function"
# Each takes every = "2s" (between two readings) and margin = 0 (seats to leave free upstream).

[defaults]            # for every pool but host that does not say otherwise
#adapt = "learn"
#cooldown = "2s"
# meter = "wire"      # judge agents by their requests, not by what they print. Unless this is set,
                      # only where it changes nothing of what they send. If it is, claude too, and
                      # logins with ChatGPT and Google: their connections to the provider are opened
                      # on this machine, with certificates for one run (docs/wire.md, "The tap")

# Rules for answers that headgate does not know, or reads wrongly; the first that applies counts:
# [[classify]]
# provider = "corp*"
# status = [429, "500-599"]
# body = "seats? (taken|gone)"     # a regular expression; also code = "…", header = { "x-a" = "…" }
# signal = "concurrency-limited"   # or rate-limited, quota-gone, overloaded, accepted, none

# Who is told of what happens; each target has one of command, url, url_env, apprise, apprise_env:
# [[notify]]
# name = "me"
# command = ["/home/me/bin/on-event"]   # gets the event as JSON on its standard input
# events = ["failed", "limit_*"]        # "all", or by default what somebody may have to act on
#                                       # `headgate notify test` tries it; see docs/notifications.md

[run]
#grace = "10s"        # how long an agent that is ended may tidy up before it is killed

[jobs]                # submitted work; "off" switches an end off
#park = true          # refused by upstream and no progress: end the agent, go on with it later
#patience = "90s"     # how long after a refusal it may try to help itself
#stale_after = "off"  # end it if it writes nothing for so long
#message_stale_after = "off"  # end it if it sends no message and calls no tool for so long
#max_runtime = "off"
#max_tool_calls = "off"
#same_tool_calls = 100           # end it after so many equal tool calls in a row
#attempts = 10        # how often a job is started in all
#backoff = "5s"       # how long a parked job waits, if upstream does not say; then twice as long …
#longest_backoff = "10m"         # … up to this
#expires = "24h"      # how long a job may wait to be started, or "never"
#keep = "7d"          # how long a finished job is remembered, or "forever"
#log_size = "64MiB"   # how much of its output is kept
#fallback_after = "5m"           # how long to wait for its model before it takes its other one
#relieve = false      # park the youngest agent of the lowest priority when memory is nearly gone

# What headgate knows about claude, opencode, codex, gemini and aider can be changed field by field,
# and other agents can be told of; docs/profiles.md has the fields:
# [profiles.my-claude]
# like = "claude"
# programs = ["my-claude"]
"""
_NO_METER = '# meter = "wire" '


def with_meter(meter: str) -> str:
    """The file for somebody who has said how agents are to be counted and watched."""
    return TEMPLATE.replace(_NO_METER, f'meter = "{meter}"'.ljust(len(_NO_METER)), 1)
