"""What the server logs: lines for people, or one JSON object per line."""

import json
import logging
import sys
import time

from headgate.core.display.json_shapes import iso
from headgate.core.printable_text import printable


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {"at": iso(record.created), "level": record.levelname.lower()}
        fields = getattr(record, "fields", None)
        said |= fields if fields is not None else {"text": printable(record.getMessage())}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        fields = getattr(record, "fields", None)
        text = record.getMessage() if fields is None else " ".join(map(str, fields.values()))
        text = f"{at} {printable(text)}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text


def set_up(kind: str) -> None:
    """Log to stderr: `json`, `text`, or only what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if kind == "json" else _Plain())
    for name in ("headgate", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    requests = kind in {"json", "text"}
    logging.getLogger("headgate").setLevel(logging.INFO if requests else logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
