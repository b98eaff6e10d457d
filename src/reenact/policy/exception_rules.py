"""Which exception means which code: by the root of its module, its name and its errno. Data, in order of precedence.

Names stand without the module's inner path ("httpx2._exceptions.ReadTimeout" is ("httpx2", "ReadTimeout")), since
libraries move their classes about inside.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HTTP_LIBRARIES: Final = frozenset(
    {"httpx2", "httpcore2", "httpx", "httpcore", "h11", "h2", "requests", "urllib3", "aiohttp", "urllib", "http"}
)
MODEL_LIBRARIES: Final = frozenset({"openai", "anthropic"})

_HTTPX: Final = ("httpx2", "httpcore2", "httpx", "httpcore")


class Rule(NamedTuple):
    """Exceptions that mean `code`, wherever they stand in a cause chain."""

    code: str
    names: frozenset[tuple[str, str]]  # (root module, class name)
    errnos: frozenset[int] = frozenset()  # Linux's numbers


def _names(*groups: tuple[tuple[str, ...], tuple[str, ...]]) -> frozenset[tuple[str, str]]:
    return frozenset((root, name) for roots, names in groups for root in roots for name in names)


_TLS: Final = Rule(
    "ERR_SSL_ERROR",
    _names(
        (("ssl", "requests", "urllib3"), ("SSLError",)),
        (("ssl",), ("SSLCertVerificationError", "CertificateError")),
        (("aiohttp",), ("ClientSSLError", "ClientConnectorSSLError", "ClientConnectorCertificateError")),
    ),
)
_DNS: Final = Rule(
    "ERR_DNS_FAILURE",
    _names(
        (("socket",), ("gaierror", "herror")),
        (("urllib3",), ("NameResolutionError",)),
        (("aiohttp",), ("ClientConnectorDNSError",)),
    ),
)
_TIMEOUT: Final = Rule(
    "ERR_TIMEOUT",
    _names(
        (("builtins", "multiprocessing", "urllib3"), ("TimeoutError",)),
        (("subprocess",), ("TimeoutExpired",)),
        (_HTTPX, ("TimeoutException", "ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout")),
        (("requests",), ("Timeout", "ConnectTimeout", "ReadTimeout")),
        (("urllib3",), ("ConnectTimeoutError", "ReadTimeoutError")),
        (("aiohttp",), ("ServerTimeoutError", "ConnectionTimeoutError", "SocketTimeoutError")),
        (("openai", "anthropic"), ("APITimeoutError",)),
    ),
    frozenset({110}),  # ETIMEDOUT
)
_REFUSED: Final = Rule(
    "ERR_CONNECTION_REFUSED",
    _names(
        (
            ("builtins",),
            (
                "ConnectionError",
                "ConnectionRefusedError",
                "ConnectionResetError",
                "ConnectionAbortedError",
                "BrokenPipeError",
            ),
        ),
        (_HTTPX, ("NetworkError", "ConnectError", "ReadError", "WriteError", "CloseError", "RemoteProtocolError")),
        (_HTTPX, ("ProxyError",)),
        (("requests",), ("ConnectionError", "ProxyError", "ChunkedEncodingError")),
        (("urllib3",), ("NewConnectionError", "ProtocolError", "ProxyError", "IncompleteRead")),
        (("aiohttp",), ("ClientConnectionError", "ClientOSError", "ClientConnectorError", "ServerDisconnectedError")),
        (("http",), ("RemoteDisconnected", "IncompleteRead", "BadStatusLine")),
        (("anyio",), ("BrokenResourceError", "EndOfStream")),
        (("asyncio",), ("IncompleteReadError",)),
        (("smtplib",), ("SMTPServerDisconnected", "SMTPConnectError")),
        (("ssl",), ("SSLEOFError", "SSLZeroReturnError")),  # the peer hung up; TLS itself did not object
    ),
    # EPIPE, ENETDOWN, ENETUNREACH, ENETRESET, ECONNABORTED, ECONNRESET, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH
    frozenset({32, 100, 101, 102, 103, 104, 111, 112, 113}),
)

NETWORK_RULES: Final = (_TLS, _DNS, _TIMEOUT, _REFUSED)
"""Looked for in the whole chain, one after the other: a TLS failure anywhere beats a timeout anywhere."""

OTHER_RULES: Final = (
    Rule(
        "ERR_CANCELLED",
        _names((("asyncio", "concurrent"), ("CancelledError",)), (("builtins",), ("KeyboardInterrupt",))),
    ),
    Rule("ERR_LLM_CONTENT_FILTER", _names((("openai",), ("ContentFilterFinishReasonError",)))),
    Rule(
        "ERR_LLM_INVALID_RESPONSE",
        _names((("openai", "anthropic"), ("APIResponseValidationError",)), (("openai",), ("LengthFinishReasonError",))),
    ),
    Rule(
        "ERR_LLM_AUTH_FAILURE",
        _names(
            (("openai", "anthropic"), ("AuthenticationError", "PermissionDeniedError")),
            (("openai",), ("OAuthError", "SubjectTokenProviderError")),
            (("anthropic",), ("CredentialsError", "IdentityTokenFileError", "WorkloadIdentityError")),
        ),
    ),
    Rule("ERR_LLM_RATE_LIMIT", _names((("openai", "anthropic"), ("RateLimitError",)))),
    Rule("ERR_LLM_INVALID_MODEL", _names((("openai", "anthropic"), ("NotFoundError",)))),
    Rule(
        "ERR_LLM_API_ERROR",
        _names(
            (("openai", "anthropic"), ("APIConnectionError", "InternalServerError", "APIError")),
            (("anthropic",), ("OverloadedError", "RetryableError")),
        ),
    ),
    Rule("ERR_VALIDATION_FAILED", _names((_HTTPX, ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError")))),
    Rule("ERR_VALIDATION_FAILED", _names((("msgspec", "pydantic_core", "jsonschema_rs"), ("ValidationError",)))),
    Rule(
        "ERR_DESERIALIZATION_FAILED",
        _names((_HTTPX, ("DecodingError",)), (("json",), ("JSONDecodeError",)), (("msgspec",), ("DecodeError",))),
    ),
    Rule("ERR_UNKNOWN", _names((("httpx2", "httpx", "requests", "aiohttp"), ("TooManyRedirects",)))),
    Rule("ERR_PERMISSION_DENIED", _names((("builtins",), ("PermissionError",))), frozenset({1, 13})),  # EPERM, EACCES
    Rule("ERR_STORAGE_QUOTA_EXCEEDED", frozenset(), frozenset({28, 122})),  # ENOSPC, EDQUOT
)
"""Looked for from the outermost exception inwards, after the network rules found nothing."""

NO_FAILURE: Final = _names((("ssl",), ("SSLWantReadError", "SSLWantWriteError")))
"""Classes that would count as what they derive from, and are only how a library talks to itself."""

KNOWN_NAMES: Final = NO_FAILURE.union(*(rule.names for rule in (*NETWORK_RULES, *OTHER_RULES)))

HTTP_STATUS: Final[dict[int, str]] = {
    400: "ERR_HTTP_400",
    401: "ERR_HTTP_401",
    403: "ERR_HTTP_403",
    404: "ERR_HTTP_404",
    408: "ERR_HTTP_TIMEOUT",
    429: "ERR_HTTP_429",
    500: "ERR_HTTP_500",
    502: "ERR_HTTP_502",
    503: "ERR_HTTP_503",
    504: "ERR_HTTP_504",
}
"""Other 4xx are ERR_HTTP_4XX, other 5xx ERR_HTTP_5XX, anything else that is not 2xx ERR_UNKNOWN."""

MODEL_STATUS: Final[dict[int, str]] = {
    401: "ERR_LLM_AUTH_FAILURE",
    403: "ERR_LLM_AUTH_FAILURE",
    404: "ERR_LLM_INVALID_MODEL",
    429: "ERR_LLM_RATE_LIMIT",
}
"""What a model provider's SDK says beside HTTP_STATUS; its 5xx (529 too) are all ERR_LLM_API_ERROR."""

FINISH_REASON: Final[dict[str, str]] = {
    "content_filter": "ERR_LLM_CONTENT_FILTER",
    "refusal": "ERR_LLM_CONTENT_FILTER",
    "model_context_window_exceeded": "ERR_LLM_CONTEXT_LENGTH",
}

LINUX_ERRNO: Final[dict[str, int]] = {
    "EPERM": 1,
    "EACCES": 13,
    "ENOSPC": 28,
    "EPIPE": 32,
    "ENETDOWN": 100,
    "ENETUNREACH": 101,
    "ENETRESET": 102,
    "ECONNABORTED": 103,
    "ECONNRESET": 104,
    "ETIMEDOUT": 110,
    "ECONNREFUSED": 111,
    "EHOSTDOWN": 112,
    "EHOSTUNREACH": 113,
    "EDQUOT": 122,
}
"""Facts carry these numbers on every system, so that a recording classifies the same wherever it is replayed."""
