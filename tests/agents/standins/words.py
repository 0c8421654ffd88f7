"""The words of a command line, of any of the agents'."""

from typing import NamedTuple

VALUED = {
    "--like", "--requests", "--state", "--speed", "--pause", "--silent-after", "--until",
    "--resume", "-r", "--session-id", "--session", "-s", "--model", "-m", "--output-format", "-o",
    "--format", "--allowedTools", "--permission-mode", "--title", "--agent", "--dir", "-C", "--cd",
    "--sandbox", "-c", "--config", "--log-level",
}  # fmt: skip


class Words(NamedTuple):
    """A command line."""

    options: dict[str, str]
    plain: list[str]

    def get(self, *names: str) -> str:
        return next((self.options[name] for name in names if name in self.options), "")


def words_of(argv: list[str]) -> Words:
    options: dict[str, str] = {}
    plain: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            plain += rest
        elif not word.startswith("-") or word == "-":
            plain.append(word)
        elif equals:
            options[name] = value
        elif word == "-c" and options.get("--like", "").startswith(("claude", "opencode")):
            options["--continue"] = "yes"
        else:
            options[word] = next(rest, "") if word in VALUED else "yes"
    return Words(options, plain)
