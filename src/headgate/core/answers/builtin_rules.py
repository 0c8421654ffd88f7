"""The built-in table by which answers and lines of output are judged: the first match decides.

The order matters. A code tells more than words do; words on how many at once tell more than a code
that means any limit; a status alone tells least. What a rule can say is in `answer_rules`.
"""

from collections.abc import Mapping

from headgate.core.answers.answer_rules import NONE, QUOTED, Rule
from headgate.core.answers.signals import CONCURRENCY, OVERLOADED, QUOTA, RATE

STATUSES: Mapping[str, int] = {
    "authentication_error": 401,
    "permission_error": 403,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "throttlingexception": 429,
    "server_is_overloaded": 503,
    "unavailable": 503,
    "overloaded_error": 529,
}
"""The status an error inside a stream stands for, if it gives none itself."""

_LIMIT = (429,)
_BUSY = (429, range(500, 600))
_UNIFIED = "anthropic-ratelimit-unified-status"
_CLAIM = "anthropic-ratelimit-unified-representative-claim"
_REJECTED = {_UNIFIED: "^rejected$"}

ANSWERS = (
    # One request that is too large by itself: to wait does not help, and others are not concerned.
    Rule("openai-too-large", NONE, status=_LIMIT, body=r"^request too large for "),
    Rule(
        "openrouter-too-large",
        NONE,
        status=(402,),
        body=r"fewer max_tokens|can only afford|prompt tokens limit exceeded",
    ),
    # Too many at once. Some providers word it as a quota or a rate, so these words come first.
    Rule(
        "at-once",
        CONCURRENCY,
        status=_LIMIT,
        body=r"concurren|simultaneous|in[- ]flight|parallel (?:requests|sessions|connections)|"
        r"too many (?:open|active) (?:requests|sessions|connections|streams)|并发",
    ),
    Rule("zai-concurrency", CONCURRENCY, status=_LIMIT, code=("1302",)),
    # Nothing more until somebody pays.
    Rule(
        "unpaid",
        QUOTA,
        status=(400, 402, 429),
        code=(
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "exceeded_current_quota_error",
            "1113",
            "1309",
            "1313",
        ),
        account=True,
        retry=False,
    ),
    Rule("payment-required", QUOTA, status=(402,), account=True, retry=False),
    Rule(
        "anthropic-credit",
        QUOTA,
        status=(400,),
        code=("invalid_request_error",),
        body=r"^your credit balance is too low",
        account=True,
        retry=False,
    ),
    Rule(
        "balance",
        QUOTA,
        status=_LIMIT,
        body=r"insufficient (?:account )?balance|balance is (?:too low|insufficient)|余额不足",
        account=True,
        retry=False,
    ),
    # Nothing more until a window of hours or days is over.
    Rule(
        "claude-window",
        QUOTA,
        status=_LIMIT,
        header={**_REJECTED, _CLAIM: "^(?:five_hour|seven_day)$"},
        account=True,
    ),
    Rule("claude-window-of-a-model", QUOTA, status=_LIMIT, header=_REJECTED),
    Rule(
        "usage-limit",
        QUOTA,
        status=_LIMIT,
        code=("usage_limit_reached", "1308", "1310"),
        account=True,
    ),
    Rule(
        "usage-limit-words",
        QUOTA,
        status=_LIMIT,
        body=r"reached your (?:[\w-]{1,20} ){0,3}usage limit|usage limit (?:has been )?reached|"
        r"monthly limit exhausted",
        account=True,
    ),
    # A day's quota comes with a delay of seconds, which is that of another limit.
    Rule(
        "gemini-day",
        QUOTA,
        status=_LIMIT,
        code=("resource_exhausted",),
        body=r"per_?day",
        retry=False,
    ),
    Rule("gemini-quota", QUOTA, status=_LIMIT, code=("quota_exhausted",)),
    Rule("zai-day", QUOTA, status=_LIMIT, code=("1304",)),
    Rule("openrouter-day", QUOTA, status=_LIMIT, body=r"free-models-per-day"),
    Rule(
        "bedrock-day",
        QUOTA,
        status=_LIMIT,
        code=("throttlingexception",),
        body=r"(?:tokens|requests) per day",
    ),
    Rule(
        "moonshot-day",
        QUOTA,
        status=_LIMIT,
        code=("rate_limit_reached_error",),
        body=r"\btpd\b",
        account=True,
    ),
    # Upstream's own trouble.
    Rule(
        "overloaded",
        OVERLOADED,
        status=_BUSY,
        code=(
            "overloaded_error",
            "overloaded",
            "server_is_overloaded",
            "server_overloaded",
            "engine_overloaded_error",
            "model_capacity_exhausted",
            "serviceunavailableexception",
            "modelnotreadyexception",
            "1305",
        ),
    ),
    Rule(
        "overloaded-words",
        OVERLOADED,
        status=_BUSY,
        body=r"\boverloaded\b|\bat capacity\b|\bhigh demand\b|访问量过大",
    ),
    # Too many in a while.
    Rule(
        "window-words",
        RATE,
        status=_LIMIT,
        body=r"per[_ -]?(?:second|minute|hour)|(?:\bper |/ ?)min\b|\b(?:\d{1,9}k?)?[rt]pm\b|"
        r"too many tokens",
    ),
    # The share of a limit that OpenRouter has at somebody else's, whoever asks.
    Rule(
        "openrouter-upstream",
        OVERLOADED,
        status=_LIMIT,
        body=r"^provider returned error$|rate-limited upstream",
    ),
    # Providers whose limits are of one kind only.
    Rule(
        "counts-at-once",
        CONCURRENCY,
        provider=("umans*", "deepseek*", "featherless*"),
        status=_LIMIT,
    ),
    Rule("azure", RATE, provider=("azure*",), status=_LIMIT),
    Rule(
        "anthropic",
        RATE,
        provider=("anthropic*",),
        status=_LIMIT,
        code=("rate_limit_error", "rate_limit"),
    ),
    Rule(
        "rate",
        RATE,
        status=(429, 503),
        code=(
            "rate_limit_exceeded",
            "rate_limit_reached_error",
            "resource_exhausted",
            "slow_down",
            "throttlingexception",
            "1303",
        ),
    ),
    Rule("cloudflare", RATE, status=_LIMIT, body=r"error (?:code: )?1015\b"),
    Rule("unavailable", OVERLOADED, status=(503, 529)),
)

_CODEX = r"(?:ERROR: |Error: |stream error: |Reconnecting\.\.\. \d{1,3}/\d{1,3} \()*"
_WINDOW = r"(?:5-hour|session|daily|weekly|monthly|usage|org's|team's)"
_DOT = r" [·∙•|—-] "
_OPENCODE_LOG = (
    r"(?:ERROR +\S{0,40}\d\d:\d\d:\d\d|timestamp=\S{10,40} level=ERROR "
    r'run=\w{1,20} message="stream error" )'
)
_LITELLM = r"(?:.{0,120} - )?(?:litellm\.exceptions\.\w{1,40}: )?litellm\."

LINES = (
    Rule(
        "claude-rejected",
        QUOTED,
        profile="claude",
        line=r"API Error: Request rejected \((?P<status>[45]\d\d)\)(?P<body>.*)",
    ),
    Rule(
        "claude-api-error",
        QUOTED,
        profile="claude",
        line=r"API Error:? \(?(?P<status>[45]\d\d)"
        r"(?P<body>\)?$| (?:[{\[·]|Overloaded|Rate limit|Too many ).*)",
    ),
    Rule(
        "claude-repeated",
        QUOTED,
        profile="claude",
        line=r"API Error: Repeated (?P<status>529) Overloaded errors",
    ),
    Rule(
        "claude-throttled",
        RATE,
        profile="claude",
        line=r"API Error: Server is temporarily limiting requests",
    ),
    Rule(
        "claude-credit",
        QUOTA,
        profile="claude",
        line=r"Credit balance is too low(?: ·|$)",
        account=True,
        retry=False,
    ),
    Rule(
        "claude-limit",
        QUOTA,
        profile="claude",
        line=rf"You've (?:hit|reached) your (?:{_WINDOW} ){{0,4}}limit(?:{_DOT}|$)|"
        rf"(?:5-hour|Session|Weekly) limit reached{_DOT}resets |"
        r"Claude (?:AI )?usage limit reached\. Your limit will reset at \d|"
        r"Claude AI usage limit reached\|(?P<reset>\d{10})$",
        account=True,
    ),
    Rule(
        "claude-limit-of-a-model",
        QUOTA,
        profile="claude",
        line=rf"You've (?:hit|reached) your (?:[A-Z][\w.]{{1,20}} |{_WINDOW} ){{1,4}}limit{_DOT}|"
        rf"[A-Z][\w.]{{1,20}} (?:weekly )?limit reached{_DOT}resets ",
    ),
    Rule(
        "codex-retries",
        QUOTED,
        profile="codex",
        line=rf"{_CODEX}exceeded retry limit, last status: (?P<status>[45]\d\d)\b",
    ),
    Rule(
        "codex-status",
        QUOTED,
        profile="codex",
        line=rf"{_CODEX}unexpected status (?P<status>[45]\d\d) [\w <>-]{{0,40}}: (?P<body>.*)",
    ),
    Rule(
        "codex-stream",
        RATE,
        profile="codex",
        line=rf"{_CODEX}stream disconnected before completion: Rate limit (?:reached|is exceeded)",
    ),
    Rule(
        "codex-quota",
        QUOTA,
        profile="codex",
        line=rf"{_CODEX}Quota exceeded\.(?: Check your plan|$)",
        account=True,
        retry=False,
    ),
    Rule(
        "codex-limit",
        QUOTA,
        profile="codex",
        line=rf"{_CODEX}You've hit your usage limit\.",
        account=True,
    ),
    Rule(
        "codex-limit-of-a-model",
        QUOTA,
        profile="codex",
        line=rf"{_CODEX}You've hit your usage limit for [\w.-]{{1,60}}\.",
    ),
    Rule(
        "codex-capacity",
        OVERLOADED,
        profile="codex",
        line=rf"{_CODEX}Selected model is at capacity\.",
    ),
    Rule(
        "gemini-attempt",
        QUOTED,
        profile="gemini",
        line=r"Attempt \d{1,3} failed with status (?P<status>[45]\d\d)\. "
        r"Retrying with backoff\.\.\.(?P<body>.*)",
    ),
    Rule(
        "gemini-delay",
        RATE,
        profile="gemini",
        line=r"Attempt \d{1,3} failed: You have exhausted your capacity on this model\.|"
        r"Suggested retry after [\d.]{1,12}s\.\. Retrying after \d{1,9}ms",
    ),
    Rule(
        "gemini-exhausted",
        QUOTA,
        profile="gemini",
        line=r"\[API Error: You have exhausted your (?:capacity|daily quota) on this model\.",
    ),
    # Its last word on a 429 has the message only, and this advice below it.
    Rule(
        "gemini-limited",
        QUOTED,
        profile="gemini",
        line=r"\[API Error: (?P<body>.*)\]\nPlease wait and try again later\. To increase your ",
    ),
    Rule(
        "gemini-overloaded",
        OVERLOADED,
        profile="gemini",
        line=r"\[API Error: The model is overloaded\.",
    ),
    Rule(
        "gemini-api-error",
        QUOTED,
        profile="gemini",
        line=r"\[API Error: (?P<body>\[?\{.{0,200}?\"code\": ?(?P<status>429|5\d\d)\b.*)",
    ),
    Rule(
        "opencode-error",
        QUOTED,
        profile="opencode",
        line=r"Error: (?P<body>(?:Too Many Requests|Rate limit (?:reached|exceeded)|"
        r"This request would exceed your |Number of [\w -]{1,40} has exceeded your ).*)",
    ),
    Rule(
        "opencode-overloaded",
        OVERLOADED,
        profile="opencode",
        line=r"Error: Overloaded$",
    ),
    Rule(
        "opencode-log",
        QUOTED,
        profile="opencode",
        line=rf"{_OPENCODE_LOG}.{{0,2000}}?\bAI_APICallError: "
        r"(?P<body>(?:Too Many Requests|Rate limit (?:reached|exceeded)|"
        r"This request would exceed your |Number of [\w -]{1,40} has exceeded your ).*)",
    ),
    Rule(
        "opencode-log-overloaded",
        OVERLOADED,
        profile="opencode",
        line=rf"{_OPENCODE_LOG}.{{0,2000}}?\bAI_APICallError: Overloaded\b",
    ),
    *(
        Rule(f"{profile}-litellm-{what}", kind, profile=profile, line=rf"{_LITELLM}{says}")
        for profile in ("aider", "sdk")
        for what, kind, says in (
            ("rate", QUOTED, r"RateLimitError: (?P<body>.*)"),
            (
                "overloaded",
                OVERLOADED,
                r"(?:InternalServerError|ServiceUnavailableError): .*\b[Oo]verloaded",
            ),
        )
    ),
    Rule(
        "aider-rate",
        QUOTED,
        profile="aider",
        line=r"The API provider has rate limited you\. Try again later",
    ),
    Rule(
        "sdk-rate",
        QUOTED,
        profile="sdk",
        line=r"(?:openai|anthropic)\.RateLimitError: Error code: (?P<status>429) - (?P<body>.*)",
    ),
)

BUILTIN = (*ANSWERS, *LINES)
