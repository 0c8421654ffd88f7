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
#limit = 3            # how many agents may run at once on one machine, or "unlimited"

[pools."*/claude-opus-*"]
#limit = 4            # how many may use such a model at once, or "unlimited"
#cooldown = "0s"      # how long a freed seat rests; "2s" lets the provider's own count catch up
#max_hold = "off"     # end work that holds its seats longer than this; "12h" ends what hangs
#reserve = {}         # seats for one class of work, as in { interactive = 1 }; normal, background

[run]
#grace = "10s"        # how long an agent that is ended may tidy up before it is killed
"""
