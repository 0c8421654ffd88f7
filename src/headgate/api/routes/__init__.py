"""The routes under /v1: a module for each kind of thing.

health   whether the server and its store answer
looking  status, capacity, plan, queue
calls    what gates of other machines call
remote   clients on other machines: members, tickets, leases
"""

from fastapi import APIRouter

from headgate.api.routes import calls, health, looking, remote

ROUTERS: tuple[APIRouter, ...] = (health.router, looking.router, remote.router, calls.router)
"""All of them. Who adds a module adds its router here."""
