"""The contract under /concurrency."""

from headgate.api.routing import new_router

router = new_router("concurrency")
