"""Retry safety: what may be sent again. A retry that repeats an effect is worse than a failure."""

from __future__ import annotations

from reenact.contracts.facts import Facts

STILL_RUNNING = "reenact.runtime.StillRunning"
"""Stands in the facts of an attempt whose thread outlived its time: while it runs, nothing may be sent again."""

CHILD_DIED = "reenact.runtime.effects.reports.ChildDied"
"""Stands in the facts of an attempt whose process ended without an answer, after the skill had begun."""
PROCESS_DIED = "reenact.runtime.ProcessDied"
"""Stands in the facts of a dispatch that was found open: whoever made it is gone."""
NOTHING_SENT = frozenset(
    {
        *("ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError", "NothingSent", "PoolTimeout"),
        *("ClientConnectorError", "ClientConnectorDNSError", "ClientConnectorSSLError", "EndpointConnectionError"),
        *("NewConnectionError", "NameResolutionError", "NoCredentialsError", "SSLCertVerificationError"),
        *("ClientConnectorCertificateError", "CertificateError", "InvalidURL", "UnsupportedProtocol"),
    }
)
"""Exceptions of those who never came to send anything; a time limit among them is no lost answer."""
SENT = frozenset(
    {
        *("ReadTimeout", "ReadTimeoutError", "WriteTimeout", "ReadError", "WriteError", "RemoteProtocolError"),
        *("RemoteDisconnected", "ServerDisconnectedError", "IncompleteRead", "ProtocolError", "ChunkedEncodingError"),
        *("ConnectionResetError", "BrokenPipeError", "SocketTimeoutError"),
    }
)
"""Exceptions of those who did; another of the same chain may tell of a try before it."""

NEVER_SENT = frozenset(
    {
        "ERR_DNS_FAILURE",
        "ERR_HTTP_429",
        "ERR_LLM_RATE_LIMIT",
        "ERR_RATE_LIMIT_CONCURRENT",
        "ERR_RATE_LIMIT_INTERNAL",
    }
)
ECONNREFUSED = 111


def never_sent(code: str, facts: Facts) -> bool:
    """True when the attempt is known to have ended before anything was accepted by the other side."""
    if code in NEVER_SENT:
        return True
    return (code == "ERR_CONNECTION_REFUSED" and any(link.errno == ECONNREFUSED for link in facts.exceptions)) or (
        code == "ERR_CONNECTION_REFUSED"
        and any(link.type.rpartition(".")[2] in ("ConnectError", "ConnectionRefusedError") for link in facts.exceptions)
    )


FATE_UNKNOWN = frozenset({"ERR_TIMEOUT", "ERR_HTTP_TIMEOUT", "ERR_CONNECTION_REFUSED", "ERR_HTTP_502", "ERR_HTTP_504"})


def fate_unknown(code: str, facts: Facts) -> bool:
    """True when the other side may be at work on the attempt although we got no answer of its own."""
    return code in FATE_UNKNOWN and not never_sent(code, facts)


def answer_lost(code: str, facts: Facts, *, unsure: bool = False) -> bool:
    """True when something may have been sent, and no answer came back that would tell what became of it.

    `unsure` of a skill that failed without a word of its own: whatever its exception is, it may have been sent.
    """
    names = {link.type.rpartition(".")[2] for link in facts.exceptions}
    if names & NOTHING_SENT and not names & SENT:
        return False
    if fate_unknown(code, facts) or any(link.type == CHILD_DIED for link in facts.exceptions):
        return True
    refused = facts.http_status is not None and facts.http_status >= 400
    return unsure and not refused and not never_sent(code, facts)


def may_repeat(*, tool_class: str, honours_key: bool, repeatable: bool, code: str, facts: Facts) -> bool:
    """May a failed attempt be followed by another?

    A read may; so may a write whose tool deduplicates by our key, or that was declared repeatable. Any other write may
    only when nothing was sent.
    """
    if any(link.type == STILL_RUNNING for link in facts.exceptions):
        return False
    if tool_class == "read" or honours_key or repeatable:
        return True
    return never_sent(code, facts)
