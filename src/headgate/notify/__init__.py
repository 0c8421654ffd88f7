"""Tells people and programs what happens: a command, a webhook, or any service apprise knows.

message          an event as they get it
outcome          how a try ended, and how to break one off
command          a command with the event on its standard input
webhook          a signed POST
apprise_program  apprise, in a process of its own
send             one try, by whichever way a target has
notifier         every event to every target: in order, again if it fails, at least once

It reads events from the store and writes back only how far it came. Nobody waits for it. Whatever
goes wrong ends as an event `notify_failed`.
"""

from headgate.notify.notifier import Notifier
from headgate.notify.send import lacks, try_out, where

__all__ = ["Notifier", "lacks", "try_out", "where"]
