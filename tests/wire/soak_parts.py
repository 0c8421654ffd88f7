"""Both ends of a soak: a provider of slow streams, and an agent that keeps many of them open.

Each event carries the moment at which it was sent, on the clock that all processes of a machine
share, so that the agent can tell how late it came.

    python soak_parts.py upstream EVERY          prints its port
    python soak_parts.py agent STREAMS SECONDS GO   asks ANTHROPIC_BASE_URL, prints what it saw

After a first short stream the agent prints "warm", and waits for the file GO: the memory that the
wire takes by itself can be measured then.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
REQUEST = b'{"model":"claude-opus-4-6","stream":true,"messages":[]}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def upstream(every: float) -> None:
    """Answer each request with a stream that lasts as many seconds as its header says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(REQUEST))
            lasts = float(head.lower().partition(b"x-lasts: ")[2].partition(b"\r\n")[0])
            writer.write(HEAD)
            until = time.monotonic() + lasts
            while time.monotonic() < until:
                await asyncio.sleep(every)
                data = b'event: ping\ndata: {"sent": %d}\n\n' % time.monotonic_ns()
                writer.write(chunk(data))
                await writer.drain()
            writer.write(chunk(LAST) + b"0\r\n\r\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - for the test
    await server.serve_forever()


def appears(file: Path) -> None:
    """Wait for a file."""
    while not file.exists():
        time.sleep(0.05)


async def agent(streams: int, seconds: float, go: Path) -> None:
    """Keep so many streams open for so long; tell how late events came, and how streams ended."""
    url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    late: list[float] = []
    whole = 0

    async def one(number: int, seconds: float) -> None:
        nonlocal whole
        await asyncio.sleep(number / streams)
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = (
            f"POST {url.path}/v1/messages HTTP/1.1\r\nhost: x\r\nx-lasts: {seconds}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(REQUEST)}\r\n\r\n"
        )
        writer.write(head.encode() + REQUEST)
        async for line in reader:
            if line.startswith(b'data: {"sent"'):
                sent = json.loads(line[6:])["sent"]
                late.append((time.monotonic_ns() - sent) / 1e6)
            elif b"message_stop" in line and line.startswith(b"data"):
                whole += 1
                break
        writer.close()

    await one(0, 0.1)
    print("warm", flush=True)  # noqa: T201 - as above
    await asyncio.to_thread(appears, go)
    late.clear()
    whole = 0
    await asyncio.gather(*(one(number, seconds) for number in range(streams)))
    late.sort()
    p99 = late[int(len(late) * 0.99)] if late else 0.0
    told = {"whole": whole, "events": len(late), "p99": p99, "worst": late[-1]}
    print(json.dumps(told))  # noqa: T201 - as above


if __name__ == "__main__":
    words = sys.argv[2:]
    if sys.argv[1] == "upstream":
        asyncio.run(upstream(float(words[0])))
    else:
        asyncio.run(agent(int(words[0]), float(words[1]), Path(words[2])))
