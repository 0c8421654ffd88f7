"""A program that asks what each line of its input tells it, through the proxy it is given.

It prints one line for each: the status, the answer, and who signed the certificate it was shown.
"""

import json
import os
import ssl
import subprocess
import sys
from base64 import b64encode
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlsplit


def ask(wish: dict[str, str]) -> dict[str, object]:
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    login = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    context = ssl.create_default_context(cafile=wish.get("trusts"))
    connection = HTTPSConnection(proxy.hostname or "", proxy.port, timeout=20, context=context)
    port = int(wish.get("port", 443))
    connection.set_tunnel(wish["host"], port, {"Proxy-Authorization": f"Basic {login}"})
    try:
        connection.connect()
        shown: Any = connection.sock.getpeercert()
        body = wish.get("body", "").encode() or None
        headers = json.loads(wish.get("headers", "{}"))
        connection.request("POST" if body else "GET", wish["path"], body, headers)
        answer = connection.getresponse()
        return {
            "status": answer.status,
            "answer": answer.read().decode(),
            "serial": shown["serialNumber"],
            "signed": dict(pair[0] for pair in shown["issuer"])["commonName"],
        }
    except OSError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        connection.close()


def run(argv: list[str]) -> dict[str, object]:
    done = subprocess.run(argv, capture_output=True, check=False)
    return {"out": done.stdout.decode(), "err": done.stderr.decode()}


def tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


tell(dict(os.environ))
for line in sys.stdin:
    wish = json.loads(line)
    tell(run(wish["run"]) if "run" in wish else ask(wish))
