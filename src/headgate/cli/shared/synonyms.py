"""What people type who come from other tools, and the verb that does it here."""

from collections.abc import Iterable

SYNONYMS = {
    **dict.fromkeys(("list", "ls", "ps", "jobs", "tasks"), "queue"),
    **dict.fromkeys(("top", "watch", "htop", "monitor"), "queue --watch"),
    **dict.fromkeys(("rm", "remove", "delete", "del", "kill", "stop", "abort", "end"), "cancel"),
    **dict.fromkeys(("terminate", "clean", "clear"), "cancel"),
    **dict.fromkeys(("unpause", "continue", "unfreeze", "thaw"), "resume"),
    **dict.fromkeys(("freeze", "suspend", "block"), "pause"),
    **dict.fromkeys(("tail", "follow"), "logs -f"),
    **dict.fromkeys(("log", "cat", "output", "stdout"), "logs"),
    **dict.fromkeys(("enqueue", "add", "push", "queue-up", "batch"), "submit"),
    **dict.fromkeys(("exec", "start", "launch", "spawn"), "run"),
    **dict.fromkeys(("restart", "rerun", "redo"), "retry"),
    **dict.fromkeys(("stash",), "hold"),
    **dict.fromkeys(("unhold", "unstash", "unblock", "approve", "confirm"), "release"),
    **dict.fromkeys(("switch", "reorder", "prioritize", "renice", "bump"), "move"),
    **dict.fromkeys(("info", "show", "explain", "describe", "inspect", "get"), "why"),
    **dict.fromkeys(("server", "http", "api"), "serve"),
    **dict.fromkeys(("daemon", "service", "agent"), "up"),
    **dict.fromkeys(("limit", "set", "caps", "cap", "pools", "pool"), "limits"),
    **dict.fromkeys(("history", "journal"), "events"),
    **dict.fromkeys(("free", "room", "slots", "can"), "capacity"),
    **dict.fromkeys(("check", "diagnose", "health", "selftest"), "doctor"),
    **dict.fromkeys(("setup", "configure"), "init"),
    **dict.fromkeys(("completions", "complete"), "completion"),
    **dict.fromkeys(("dryrun", "dry-run", "simulate"), "plan"),
    "version": "--version",
    "stats": "status",
    "wait-for": "wait",
}

_REVERSING = ("un", "de", "dis", "no")


def meant(verb: str, verbs: Iterable[str]) -> str:
    """What to propose for a word that is no verb; never what undoes it. Empty for nothing."""
    word = verb.strip().lower()[:40]
    known = list(verbs)
    if word in known:
        return word
    if word in SYNONYMS:
        return SYNONYMS[word]
    from difflib import get_close_matches

    stems = [word.removeprefix(one) for one in _REVERSING if word.startswith(one)]
    undone = {verb for stem in stems for verb in get_close_matches(stem, known, 3, 0.7)}
    near = (SYNONYMS.get(one, one) for one in get_close_matches(word, [*known, *SYNONYMS], 5))
    return next((one for one in near if one.split()[0] not in undone), "")
