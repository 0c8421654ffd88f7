"""The server: what the command line can do, over HTTP, for programs, pages and other machines.

It is never needed for the gate to hold. It opens the store as every other process does; if it is
killed, all that runs and waits goes on. A request passes these, each of which knows those before:

protocol     one connection: bounded heads and times
peers        who is at its other end, by the kernel's word
guard        every request before it is read: Host, Origin, who asks, how much may come
routing      a route says which scope it needs, and is not reached without
problems     what went wrong, as RFC 9457 has it
service      the gate, off the event loop; what all requests share
event_feed   events as they happen, for any number of watchers
streams      answers that go on: server-sent events, long waits
once         requests that can be made again without being done again
schemas      the shapes of docs/json.md, for the OpenAPI
routes       the routes under /v1, one module for each kind of thing
concurrency  the contract under /concurrency
docs_page    the interactive page
remote_schemas  the shapes of clients on other machines
app          all routes, put together
places       where to listen, and whether that is safe
logs         lines for people, or JSON
serve        the process: sockets, signals
"""
