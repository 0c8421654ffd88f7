"""An example or two for each verb: shown by its --help, its man page and the reference."""

from headgate.core.named_tuple import NamedTuple


class Example(NamedTuple):
    """A command as one types it, and what it is for."""

    command: str
    does: str


def _of(*pairs: tuple[str, str]) -> tuple[Example, ...]:
    return tuple(Example(command, does) for command, does in pairs)


EXAMPLES = {
    "run": _of(
        ('headgate run -- claude -p "fix #12"', "start it when there is room"),
        ("headgate run --no-wait -m openai/gpt-5 -- codex exec …", "or exit with 75 at once"),
    ),
    "submit": _of(
        ('headgate submit --name review -- claude -p "review it"', "prints its id"),
        ("headgate submit --after review -- sh -c 'make test'", "when that is done"),
        ("headgate submit --batch - < jobs.jsonl", "many at once"),
    ),
    "up": _of(
        ("headgate up", "start submitted work, here, until Ctrl-C"),
        ("headgate init --service", "the same as a service"),
    ),
    "worker": _of(("headgate worker -q", "start submitted work, and print nothing of it")),
    "status": _of(("headgate status", "what is in use"), ("headgate status --watch", "until q")),
    "queue": _of(
        ("headgate queue --watch", "drawn again each second, until q"),
        ("headgate queue --pool anthropic --state queued", "only what fits"),
        ("headgate queue --json", "positions, reasons, ETAs"),
    ),
    "why": _of(("headgate why review", "where it stands, and why")),
    "logs": _of(
        ("headgate logs -f review", "as it comes, until the job has ended"),
        ("headgate logs -n 20 31", "the last 20 lines"),
    ),
    "events": _of(("headgate events -f", "what happens from now on, too")),
    "capacity": _of(
        ("headgate capacity anthropic/claude-opus-4-6 || echo full", "ask before handing out work")
    ),
    "plan": _of(("headgate plan candidates.jsonl --json", "which of them would start now")),
    "cancel": _of(
        ("headgate cancel 31 review", "by id or by name"),
        ("headgate cancel --task oracle-2", "all that is for a task"),
    ),
    "wait": _of(("headgate wait review 32 --timeout 1h", "exit 0 if both are done")),
    "retry": _of(("headgate retry review", "once more")),
    "hold": _of(("headgate hold review", "until headgate release review")),
    "release": _of(("headgate release review", "let it into the line")),
    "move": _of(("headgate move review --first", "before all others of its priority")),
    "limits": _of(
        ("headgate limits", "all of them, and where they come from"),
        ("headgate limits set 'anthropic/claude-opus-*' 3", "at once, and for good"),
        ("headgate limits get host", "a number for a script"),
    ),
    "pause": _of(("headgate pause anthropic --for 20m", "nothing starts there for a while")),
    "resume": _of(("headgate resume anthropic", "at once")),
    "report": _of(
        ("headgate report anthropic rate-limited --retry-after 60", "from a hook, after a 429")
    ),
    "probe": _of(("headgate probe --most 8 -- claude -p hi", "how many this machine carries")),
    "init": _of(
        ("headgate init", "a configuration to start from"),
        ("headgate init --service", "have jobs started with every login"),
    ),
    "config": _of(("headgate config check", "all that is wrong with it, at once")),
    "doctor": _of(("headgate doctor", "what is wrong or odd")),
    "store": _of(
        ("headgate store backup headgate-backup.db", "a copy, while all goes on"),
        ("headgate store check", "look for damage"),
    ),
    "serve": _of(
        ("headgate serve", "for programs of your own on this machine"),
        ("headgate serve --listen unix:$XDG_RUNTIME_DIR/headgate.sock --log json", "at a path"),
    ),
    "token": _of(
        ("headgate token create --scope read --name wall", "for a page that shows what goes on"),
        ("headgate token revoke wall", "nobody can use it any more"),
    ),
    "notify": _of(("headgate notify test", "send a test to every target")),
    "completion": _of(
        ('eval "$(headgate completion bash)"', "in ~/.bashrc; the same for zsh in ~/.zshrc"),
        ("headgate completion fish | source", "in ~/.config/fish/config.fish"),
    ),
    "demo": _of(("headgate demo", "watch it at work")),
    "sim": _of(("headgate sim run --help", "judge how limits are learned")),
}
