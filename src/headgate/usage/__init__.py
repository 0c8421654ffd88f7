"""Reads upstream's own count of what is in use. The network, or a function of the user's.

fetch     one GET: where to, with which key, and what is refused of the answer
shapes    what an answer says, as a Reading
call      a function of the user's as a source
stream    an answer that goes on, and a thread that keeps listening
sources   one reading from any source
failed    why there is none

A source comes from the configuration, the key from the environment. Out goes a Reading, or Failed
with a sentence for people, in which there is no key, no URL but its host, and nothing that came
with the answer but its status. Nothing is stored.
"""

from headgate.usage.failed import Failed
from headgate.usage.sources import read
from headgate.usage.stream import Latest, Stream

__all__ = ["Failed", "Latest", "Stream", "read"]
