"""A gate whose store is behind a server: the same class to its user, on another machine.

server            asks the server; what it says went wrong is the same error as here
values            frozen values as JSON, and back
guardian          the small process that ends what was started, whatever becomes of this one
guardian_process  that process as seen from this one: started, told, started again
pending           a request that waits, and what is told without waiting
renewals          this client as a member: one renewal for all that it has, and when it must be over
lease             seats that are held there
slot              the wait for them
jobs              durable work, handed in and looked at
gate              all of it, put together

The server may be gone at any moment, and so may the network. What is held stays held until the
fence, and is ended before it (docs/remote.md).
"""
