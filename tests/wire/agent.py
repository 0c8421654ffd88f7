"""An agent for tests: sends requests, and prints a line of JSON for each answer.

agent.py [options] NUMBER:DIALECT...
"""

import argparse
import base64
import http.client
import json
import os
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

BASES = {
    "messages": ("ANTHROPIC_BASE_URL", "/v1/messages"),
    "chat": ("OPENAI_BASE_URL", "/chat/completions"),
    "responses": ("OPENAI_BASE_URL", "/responses"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "/v1beta/models/{model}:{verb}"),
}
LOCK = threading.Lock()


def body(dialect: str, model: str, prompt: str, *, stream: bool) -> dict[str, Any]:
    """A request of an API."""
    if dialect == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    messages = [{"role": "user", "content": prompt}]
    if dialect == "responses":
        return {"input": prompt, "model": model, "stream": stream}
    return {"max_tokens": 1_000, "messages": messages, "model": model, "stream": stream}


def _sent(dialect: str, said: argparse.Namespace) -> bytes:
    if said.raw is not None:
        return bytes(said.raw, "utf-8")
    prompt = "x" * said.huge if said.huge else said.prompt
    return json.dumps(body(dialect, said.model, prompt, stream=said.stream)).encode()


def ask(word: str, said: argparse.Namespace) -> None:
    """Send one request, and tell what came back."""
    number, _, dialect = word.partition(":")
    variable, path = BASES[dialect]
    base = urlsplit(os.environ[variable])
    verb = "streamGenerateContent?alt=sse" if said.stream else "generateContent"
    path = base.path.rstrip("/") + path.format(model=said.model, verb=verb)
    headers = {"x-api-key": "k", "authorization": "Bearer k", "x-number": number}
    headers["content-type"] = "application/json"
    method, sent = "POST", _sent(dialect, said)
    if said.get or said.websocket:
        method, sent = "GET", b""
        path = base.path + said.get if said.get else path
    if said.websocket:
        headers |= {"connection": "Upgrade", "upgrade": "websocket"}
        headers |= {"sec-websocket-key": "x" * 22 + "==", "sec-websocket-version": "13"}
    for left in reversed(range(said.tries)):
        connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=50)
        try:
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            if not left:
                raise
        else:
            break
    line = {
        "number": number,
        "status": answer.status,
        "headers": {name.lower(): value for name, value in answer.getheaders()},
        "body": base64.b64encode(data).decode(),
    }
    with LOCK:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Ask for everything, one after the other or at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--model", default="opus")
    parser.add_argument("--prompt", default="hi")
    parser.add_argument("--raw", help="the body, whatever it is")
    parser.add_argument("--huge", type=int, help="a prompt of so many bytes, and the model last")
    parser.add_argument("--get", help="ask for this path instead")
    parser.add_argument("--websocket", action="store_true", help="ask for a WebSocket instead")
    parser.add_argument("--tries", type=int, default=1, help="if the connection breaks")
    parser.add_argument("requests", nargs="+")
    said = parser.parse_args()
    threads = [threading.Thread(target=ask, args=(word, said)) for word in said.requests]
    for thread in threads:
        thread.start()
        if not said.at_once:
            thread.join()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
