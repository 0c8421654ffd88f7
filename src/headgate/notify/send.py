"""One try to tell a target of an event, by whichever way it has."""

import json
import os
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from headgate.core.display import json_shapes
from headgate.core.display.snapshots import Event
from headgate.core.install_hint import install_extra
from headgate.core.notification_targets import APPRISE, COMMAND, NotifyTarget
from headgate.core.times import seconds
from headgate.errors import UsageError
from headgate.notify import apprise_program, command, message, webhook
from headgate.notify.outcome import Cancellation, Delivered, DeliveryFailed, Outcome

_SERVICE = f"import sys; from {apprise_program.__name__} import main; sys.exit(main())"


def lacks(target: NotifyTarget, environ: Mapping[str, str] | None = None) -> str:
    """What this process lacks to tell a target anything; empty if nothing."""
    env = os.environ if environ is None else environ
    missing = [name for name in target.variables if not env.get(name)]
    if missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
    if target.by == APPRISE and find_spec("apprise") is None:
        return f"apprise is not installed; {install_extra('notify')}"
    try:
        if target.gets_json:
            _wants_only_new(env)
    except UsageError as error:
        return str(error)
    return ""


def _wants_only_new(environ: Mapping[str, str]) -> bool:
    return json_shapes.only_new(environ.get(json_shapes.VARIABLE, ""))


def where(target: NotifyTarget) -> str:
    """Where a target is, without what may be secret: a program, a host, a kind of service."""
    if target.by == COMMAND:
        program = "sh" if target.command[:2] == ("sh", "-c") else target.command[0]
        return os.path.basename(program)  # noqa: PTH119 - a word, not always a path
    variable = target.url_env or target.apprise_env
    if variable:
        return f"${variable}"
    if target.apprise:
        return f"{target.apprise.partition('://')[0]}://"
    return urlsplit(target.url).hostname or ""


def send(
    target: NotifyTarget,
    event: Event,
    delivery: str,
    cancellation: Cancellation | None = None,
    environ: Mapping[str, str] | None = None,
) -> Outcome:
    """Tell a target of an event, once. Never raises."""
    env = os.environ if environ is None else environ
    held = cancellation or Cancellation()
    lack = lacks(target, env)
    if lack:
        return DeliveryFailed(lack, again=False)
    try:
        if target.by == COMMAND:
            return _by_command(target, event, delivery, held, env)
        if target.by == APPRISE:
            return _by_apprise(target, event, held, env)
        return _by_webhook(target, event, delivery, held, env)
    except Exception as error:  # noqa: BLE001 - no notification harms whoever sends it
        return DeliveryFailed(f"cannot be told: {type(error).__name__}")


def try_out(target: NotifyTarget, environ: Mapping[str, str] | None = None) -> str:
    """Send a test to a target now; returns why it failed, or nothing if it went through."""
    delivery = f"test-{os.urandom(6).hex()}"
    outcome = send(target, message.trial(target.name), delivery, environ=environ)
    if not isinstance(outcome, DeliveryFailed):
        return ""
    return f"{outcome.why}: {outcome.said}" if outcome.said else outcome.why


def _by_command(
    target: NotifyTarget,
    event: Event,
    delivery: str,
    cancellation: Cancellation,
    environ: Mapping[str, str],
) -> Outcome:
    said = message.message(event, target.name, delivery, only_new=_wants_only_new(environ))
    env = {**environ, "HEADGATE_EVENT": said["event"], "HEADGATE_SUMMARY": said["summary"]}
    data = message.encode(said) + b"\n"
    ended = command.run(target.command, data, seconds(target.timeout), cancellation, env)
    return command.judge(ended) or Delivered()


def _by_webhook(
    target: NotifyTarget,
    event: Event,
    delivery: str,
    cancellation: Cancellation,
    environ: Mapping[str, str],
) -> Outcome:
    url = target.url or environ[target.url_env].strip()
    said = message.message(event, target.name, delivery, only_new=_wants_only_new(environ))
    body = message.encode(said)
    stamp = str(int(time.time()))
    headers = {
        "X-Headgate-Event": event.event,
        "X-Headgate-Delivery": delivery,
        "X-Headgate-Timestamp": stamp,
    }
    if target.secret_env:
        secret = environ[target.secret_env].encode(errors="surrogateescape")
        headers["X-Headgate-Signature"] = webhook.sign(secret, stamp, body)
    timeout = seconds(target.timeout)
    return webhook.post(
        url, headers, body, timeout=timeout, cancellation=cancellation, environ=environ
    )


def _by_apprise(
    target: NotifyTarget, event: Event, cancellation: Cancellation, environ: Mapping[str, str]
) -> Outcome:
    url = target.apprise or environ[target.apprise_env].strip()
    said = {"url": url, "title": message.title(event), "body": message.summary(event)}
    argv = (sys.executable, "-P", "-c", _SERVICE)
    ended = command.run(
        argv, json.dumps(said).encode(), seconds(target.timeout), cancellation, environ
    )
    if isinstance(ended, DeliveryFailed):
        return ended
    match ended.code:
        case 0:
            return Delivered()
        case apprise_program.UNKNOWN:
            return DeliveryFailed("apprise does not know such a URL", again=False)
        case _:
            return DeliveryFailed("apprise could not deliver it")
