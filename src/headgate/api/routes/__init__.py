"""The routes under /v1: a module for each kind of thing.

calls       what gates of other machines call
events      what happened, and what happens
health      whether the server and its store answer
jobs        handed in, listed, shown, and what is done to one
job_said    what a job is told to be
looking     status, capacity, plan, queue
output      what a job has printed
parameters  what paths, queries and bodies are made of
pools       pools, limits, cooldowns, pauses, signals
remote      clients on other machines: members, tickets, leases
"""

from fastapi import APIRouter

from headgate.api.routes import calls, events, health, jobs, looking, output, pools, remote

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    looking.router,
    jobs.router,
    output.router,
    events.router,
    pools.router,
    remote.router,
    calls.router,
)
"""All of them. Who adds a module adds its router here."""
