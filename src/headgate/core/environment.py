"""Every environment variable that headgate reads, or sets for the programs that it starts.

`docs/reference.md` shows these tables (`make reference` writes it). A test looks through the code
for variables that are missing here.
"""

SETTINGS = {
    "HEADGATE_STORE": "Where the line is kept, as in `sqlite:///path/to/file`; or the server that "
    "has it, as in `https://gate.example:7433`. `--store` beats it. "
    "`?shared=true` at its end trusts all users who can write the file. "
    "Programs of jobs find the store of their job in it.",
    "HEADGATE_TOKEN": "What a server is shown that is on another machine or another user's "
    "(`headgate token create`).",
    "HEADGATE_TOKEN_FILE": "A file that holds it, if `HEADGATE_TOKEN` is not set.",
    "HEADGATE_FENCE": "For how long a server may be out of reach before the work of this client "
    "has to end, as in `10m`; `never` for work that goes on.",
    "HEADGATE_CONFIG": "The configuration file, which must exist; `--config` beats it.",
    "HEADGATE_LIMITS": "Limits that beat all others for what is started from here, "
    'as in `"host=5,anthropic/claude-opus-*=4"`.',
    "HEADGATE_METER": "How agents that are started from here are counted and watched: `agent`, "
    "`wire` or `requests`; `--meter` beats it.",
    "HEADGATE_QUEUE_TIMEOUT": "For how long a request may wait for its seat, under the meter "
    "`requests`; `--queue-timeout` beats it.",
    "HEADGATE_SCHEMA": "`1` leaves the old names out of JSON, and the warning about them.",
    "HEADGATE_TASK": "Whom work is for that is started from here without `--task`. "
    "Programs that headgate starts find their own task in it.",
}
"""Set by people."""

FOR_PROGRAMS = {
    "HEADGATE_LEASE": "In every program that headgate starts: by this mark it knows whose seats "
    "the program uses. A `headgate run` in there shares them, and so do jobs that it waits for. "
    "A worker that is started in there has `none`: it belongs to no lease.",
    "HEADGATE_JOB": "In the program of a job: its id.",
    "HEADGATE_ATTEMPT": "In the program of a job: 1 in its first attempt, 2 in its second …",
    "HEADGATE_REPLACED": "In a metered agent: the variables that were replaced to see its "
    "requests, as JSON with their values before. A worker that is started in there puts them back.",
    "HEADGATE_EVENT": "In the command of a notification: the kind of event.",
    "HEADGATE_SUMMARY": "In the command of a notification: the event in one line.",
}
"""Set by headgate."""

OTHERS = {
    "XDG_CONFIG_HOME": "The folder of the configuration and of services; `~/.config` if unset.",
    "XDG_STATE_HOME": "The folder of the usual store; `~/.local/state` if unset.",
    "PATH": "Where programs are looked up.",
    "TZ": "In a job: the time zone in which its agent tells when a limit ends, if it names none.",
    "NO_COLOR": "If it is not empty: no colours.",
    "TERM": "`dumb`, or none at all: no colours.",
    "COLUMNS": "How wide tables may be; the width of the terminal if unset.",
    "https_proxy": "The proxy for https: usage readings, webhooks and `headgate probe`.",
    "HTTPS_PROXY": "The same, if `https_proxy` is not set.",
    "no_proxy": "Hosts that are reached without the proxy, with commas between; `*` for all.",
    "NO_PROXY": "The same, if `no_proxy` is not set.",
    "ANTHROPIC_API_KEY": "The key with which `headgate probe` asks an Anthropic API.",
    "OPENAI_API_KEY": "The key with which `headgate probe` asks an OpenAI API.",
    "GEMINI_API_KEY": "The key with which `headgate probe` asks a Gemini API.",
    "UMANS_API_KEY": "The key for usage readings of the kind `umans`.",
    "FEATHERLESS_API_KEY": "The key for usage readings of the kind `featherless`.",
    "http_proxy": "If it is set, agents that are pointed at headgate are told to ask it directly.",
    "HTTP_PROXY": "The same.",
    "HOME": "Where agents keep their settings, which are read and never changed.",
    "ANTHROPIC_BASE_URL": "Where a metered agent's requests go on to, if it is set; the agent "
    "finds headgate's address in it.",
    "OPENAI_BASE_URL": "The same for programs that use OpenAI's SDK.",
    "OPENAI_API_BASE": "The same for `aider`.",
    "ANTHROPIC_API_BASE": "The same for `aider`, which then cannot be led elsewhere.",
    "OPENCODE_CONFIG": "A file with settings of `opencode`: where its providers are.",
    "OPENCODE_CONFIG_DIR": "A folder with such files.",
    "OPENCODE_CONFIG_CONTENT": "Settings of `opencode` themselves. A metered one finds in it "
    "where headgate is, with all that it said before.",
    "CODEX_HOME": "Where `codex` keeps its settings; `~/.codex` if unset.",
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "If it is set, it stays, and `gemini` is not metered by "
    "a base URL unless it has one.",
    "CLAUDE_CODE_USE_BEDROCK": "If it is on, `claude` asks somebody else, in a way that is not "
    "metered.",
    "CLAUDE_CODE_USE_VERTEX": "The same.",
    "CLAUDE_CODE_USE_FOUNDRY": "The same.",
    "ANTHROPIC_MODEL": "Which model `claude` uses, if its command line does not say.",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "Which model `claude` calls `opus`.",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "Which model `claude` calls `sonnet` and `opusplan`.",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "Which model `claude` calls `haiku`.",
    "GEMINI_MODEL": "Which model `gemini` uses, if its command line does not say.",
    "AIDER_MODEL": "Which model `aider` uses, if its command line does not say.",
}
"""Those of others that headgate reads."""

VARIABLES = {
    "Set them to tell headgate something": SETTINGS,
    "headgate sets them": FOR_PROGRAMS,
    "Variables of others that headgate reads": OTHERS,
}
OURS = (*SETTINGS, *FOR_PROGRAMS)
