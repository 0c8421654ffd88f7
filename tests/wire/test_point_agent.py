"""Which meter each agent gets, where its requests go, and how it is pointed at us."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headgate.config.parsed_config import GRACE, Config
from headgate.config.profiles import all_profiles
from headgate.core.agents.find_profile import find
from headgate.core.agents.meters import BASE_URL, TAP, AskedMeter, Meter
from headgate.wire.point_agent import Pointed, WirePlan, plan_wire, point

URL = "http://127.0.0.1:7"
PROFILES = all_profiles(Config(path=None, pools={}, grace=GRACE, warnings=()))
WIRE = AskedMeter(Meter.WIRE, "--meter")


class Home:
    """A home and a project of somebody."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.files = folder / "files"
        self.work.mkdir(parents=True)
        self.home.mkdir()

    def has(self, name: str, text: str) -> None:
        """Put a file into the home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def plan(self, *argv: str, asked: AskedMeter | None = None, **variables: str) -> WirePlan:
        environment = {"HOME": str(self.home), **variables}
        return plan_wire(asked, find(argv, PROFILES), argv, environment, self.work)

    def pointed(self, plan: WirePlan, *argv: str) -> Pointed:
        return point(plan, argv, URL, self.files)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_claude_is_left_alone_unless_somebody_asks(home: Home) -> None:
    """A base URL of ours would change what it sends, so it is judged by its output; a hint."""
    plan = home.plan("claude", "-p", "x")
    assert plan.meter is Meter.AGENT
    assert "--meter wire" in plan.choice.hint
    asked = home.plan("claude", "-p", "x", asked=WIRE)
    assert asked.choice.way is not None
    assert asked.choice.way.way == TAP
    assert asked.choice.way.hosts == ("api.anthropic.com",)


def test_claude_with_a_gateway_is_seen(home: Home) -> None:
    """It has another base URL than its maker's already, and that is where its requests go on to."""
    plan = home.plan("claude", "-p", "x", ANTHROPIC_BASE_URL="https://gate.example/v9/")
    assert plan.meter is Meter.WIRE
    assert plan.upstreams == {"anthropic": "https://gate.example/v9"}
    told = home.pointed(plan, "claude", "-p", "x")
    assert told.argv == ["claude", "-p", "x"]
    assert told.environment == {"ANTHROPIC_BASE_URL": f"{URL}/anthropic"}


def test_codex_with_a_key_is_seen(home: Home) -> None:
    """By an option before its subcommand; behind wrappers too."""
    plan = home.plan("timeout", "9", "codex", "exec", "x", OPENAI_API_KEY="k")
    assert plan.meter is Meter.WIRE
    assert plan.upstreams == {"openai": "https://api.openai.com"}
    told = home.pointed(plan, "timeout", "9", "codex", "exec", "x")
    option = f'openai_base_url="{URL}/openai/v1"'
    assert told.argv == ["timeout", "9", "codex", "-c", option, "exec", "x"]


def test_codex_with_a_login_needs_a_tap(home: Home) -> None:
    """What `codex login` keeps says so, whatever is in the environment."""
    home.has(".codex/auth.json", '{"tokens": {"access_token": "t"}, "OPENAI_API_KEY": null}')
    plan = home.plan("codex", "exec", "x", OPENAI_API_KEY="k")
    assert plan.meter is Meter.AGENT
    asked = home.plan("codex", "exec", "x", asked=WIRE).choice.way
    assert asked is not None
    assert asked.way == TAP


def test_codex_with_a_provider_of_its_own(home: Home) -> None:
    """The URL in its settings is where its requests go on to; an option beats the settings."""
    home.has(
        ".codex/config.toml",
        'model_provider = "one"\n[model_providers.one]\nbase_url = "http://one/v1"\n'
        '[model_providers.two]\nbase_url = "http://two/v1"\n',
    )
    plan = home.plan("codex", "exec", "x")
    assert plan.upstreams == {"codex": "http://one/v1"}
    option = f'model_providers.one.base_url="{URL}/codex"'
    assert home.pointed(plan, "codex", "exec").argv == ["codex", "-c", option, "exec"]
    other = home.plan("codex", "-c", "model_provider=two", "exec", "x")
    assert other.upstreams == {"codex": "http://two/v1"}


def test_aider_is_seen_if_a_gateway_is_there(home: Home) -> None:
    """It sends less to any other host than OpenAI's: that changes nothing only at a gateway."""
    argv = ("aider", "--model", "openai/gpt-4.1")
    assert home.plan(*argv).meter is Meter.AGENT
    own = home.plan(*argv, OPENAI_API_BASE="https://api.openai.com/v1")
    assert own.meter is Meter.AGENT
    asked = home.plan(*argv, asked=WIRE).choice.way
    assert asked is not None
    assert (asked.way, asked.hosts) == (TAP, ("api.anthropic.com", "api.openai.com"))
    plan = home.plan(*argv, OPENAI_API_BASE="http://gate.example/v9")
    assert plan.meter is Meter.WIRE
    assert plan.upstreams["openai"] == "http://gate.example/v9"
    assert home.pointed(plan, *argv).environment["OPENAI_API_BASE"] == f"{URL}/openai"
    first = home.plan(*argv, OPENAI_API_BASE="http://gate.example", OPENAI_BASE_URL="http://other")
    assert first.meter is Meter.AGENT


def test_gemini_with_a_key_is_seen(home: Home) -> None:
    """It needs a word on how to log in, which is in a file of its own."""
    plan = home.plan("gemini", "-p", "x", GEMINI_API_KEY="k")
    assert plan.meter is Meter.WIRE
    told = home.pointed(plan, "gemini", "-p", "x")
    assert told.environment["GOOGLE_GEMINI_BASE_URL"] == f"{URL}/google"
    file = Path(told.environment["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"])
    assert json.loads(file.read_text())["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert file.parent == home.files


def test_gemini_with_a_google_login_needs_a_tap(home: Home) -> None:
    """It ignores a base URL then."""
    home.has(".gemini/settings.json", '{"security": {"auth": {"selectedType": "oauth-personal"}}}')
    assert home.plan("gemini", "-p", "x", GEMINI_API_KEY="k").meter is Meter.AGENT


def test_opencode_keeps_what_the_user_has_set(home: Home) -> None:
    """Each provider's own URL is where its requests go on to; comments in settings do no harm."""
    home.has(
        ".config/opencode/opencode.jsonc",
        '{ // mine\n "provider": {"anthropic": {"options": {"baseURL": "https://gate/v1"}},\n'
        '  "own": {"npm": "x", "options": {"baseURL": "http://own/v1"},},},}',
    )
    plan = home.plan(
        "opencode",
        "run",
        "x",
        OPENCODE_CONFIG_CONTENT='{"theme": "a", "provider": {"own": {"name": "Own"}}}',
    )
    assert plan.meter is Meter.WIRE
    assert plan.upstreams["anthropic"] == "https://gate/v1"
    assert plan.upstreams["own"] == "http://own/v1"
    assert plan.upstreams["openai"] == "https://api.openai.com/v1"
    said = json.loads(home.pointed(plan, "opencode", "run").environment["OPENCODE_CONFIG_CONTENT"])
    assert said["theme"] == "a"
    assert said["provider"]["own"] == {"name": "Own", "options": {"baseURL": f"{URL}/own"}}


def test_settings_that_cannot_be_read_leave_it_alone(home: Home) -> None:
    """Nobody knows where its requests would go on to."""
    home.has(".config/opencode/opencode.json", "{ this is no JSON")
    assert home.plan("opencode", "run", "x").meter is Meter.AGENT


@pytest.mark.parametrize(
    "variables, upstreams",
    [
        ({}, {"anthropic": "https://api.anthropic.com"}),
        ({"ANTHROPIC_BASE_URL": "http://gate/x"}, {"anthropic": "http://gate/x"}),
    ],
)
def test_any_program_that_asks_through_an_sdk(
    home: Home, variables: Mapping[str, str], upstreams: Mapping[str, str]
) -> None:
    """If somebody asks for it; without a word it is left alone."""
    assert home.plan("python", "x.py", asked=None, **variables).meter is Meter.AGENT
    plan = home.plan("python", "x.py", asked=WIRE, **variables)
    assert plan.choice.way is not None
    assert plan.choice.way.way == BASE_URL
    assert upstreams.items() <= plan.upstreams.items()


def test_the_users_proxy_is_not_asked_for_this_machine(home: Home) -> None:
    """Whoever has a proxy asks us without it."""
    plan = home.plan(
        "opencode", "run", "x", HTTPS_PROXY="http://proxy:3128", NO_PROXY="example.com"
    )
    assert home.pointed(plan, "opencode").environment["NO_PROXY"] == "example.com,127.0.0.1"


def test_each_list_of_hosts_without_a_proxy_is_completed(home: Home) -> None:
    """One that names this machine stays as it is; none loses what it says."""
    plan = home.plan(
        "opencode",
        "run",
        "x",
        HTTPS_PROXY="http://p:1",
        no_proxy="127.0.0.1",
        NO_PROXY="a,127.0.0.11",
    )
    told = home.pointed(plan, "opencode").environment
    assert "no_proxy" not in told
    assert told["NO_PROXY"] == "a,127.0.0.11,127.0.0.1"
