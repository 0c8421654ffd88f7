"""One reading from any source."""

import time
from collections.abc import Mapping

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.core.times import Seconds
from headgate.http_client import Connection, Trouble
from headgate.usage.call import ask
from headgate.usage.failed import Failed, explain
from headgate.usage.fetch import aim, get, host_of
from headgate.usage.shapes import by_path, featherless, load, umans
from headgate.usage.stream import open_events


def read(
    source: UsageSource, *, environ: Mapping[str, str], timeout: Seconds = Seconds(5)
) -> Reading | Failed:
    """Ask a source how much is in use. Takes no longer than `timeout` seconds, raises nothing."""
    if source.kind == "python":
        return ask(source.call, timeout)
    connection = Connection(timeout)
    try:
        return _read(source, environ, connection)
    except Exception as error:  # noqa: BLE001 - whatever upstream does, it is a failed reading
        return explain(host_of(source), error, timeout)
    finally:
        connection.close()


def _read(
    source: UsageSource, environ: Mapping[str, str], connection: Connection
) -> Reading | Failed:
    match source.kind:
        case "umans":
            answer = load(get(aim(source, environ), connection, "application/json").read())
            return umans(answer, Seconds(time.time()))
        case "json":
            answer = load(get(aim(source, environ), connection, "application/json").read())
            return by_path(answer, source.used, source.limit)
        case "featherless":
            for data in open_events(source, environ, connection):
                return featherless(load(data))
            raise Trouble("closed the connection too early")
        case kind:
            return Failed(f"a usage source of kind {kind[:40]!r} is unknown")
