"""The routes under /v1: a module for each kind of thing.

health      whether the server and its store answer
pools       pools, limits, cooldowns, pauses, signals
looking     status, capacity, plan, queue
jobs        handed in, listed, shown, and what is done to one
job_said    what a job is told to be
output      what a job has printed
events      what happened, and what happens
parameters  what paths, queries and bodies are made of
"""

from fastapi import APIRouter

from headgate.api.routes import events, health, jobs, looking, output, pools

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    looking.router,
    jobs.router,
    output.router,
    events.router,
    pools.router,
)
"""All of them. Who adds a module adds its router here."""
