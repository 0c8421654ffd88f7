from typing import NamedTuple


class Terms(NamedTuple):
    patience: int = 90_000
    stale_after: int | None = None
    max_runtime: int | None = None
    max_tool_calls: int | None = None
    same_tool_calls: int | None = 100
    park: bool = True


class Verdict(NamedTuple):
    code: str
    text: str
    park: bool


class Vigil:
    def __init__(self, profile, terms, rules, provider, started):
        self.session = ""
        self.last_line = ""
        self.retry_after = None

    def feed(self, line, now, wall):
        return None

    def verdict(self, now):
        return None

    def due(self, now):
        return None

    def outcome(self, code, signal):
        return None
