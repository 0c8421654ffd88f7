"""The routes under /v1: a module for each kind of thing.

health   whether the server and its store answer
looking  status, capacity, plan, queue
"""

from fastapi import APIRouter

from headgate.api.routes import health, looking

ROUTERS: tuple[APIRouter, ...] = (health.router, looking.router)
"""All of them. Who adds a module adds its router here."""
