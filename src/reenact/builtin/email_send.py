"""`email_send`: one message over SMTP."""

from __future__ import annotations

import asyncio
import errno
import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from reenact.builtin.limiter import limited
from reenact.builtin.net.guard import Guard
from reenact.builtin.net.smtp import PinnedSmtp
from reenact.builtin.net.transport import TLS_SERVICE
from reenact.errors import SkillError
from reenact.skills.context import SkillContext
from reenact.skills.declare import skill
from reenact.values.digest import sha256_hex

Security = Literal["starttls", "tls", "none"]
Addresses = Annotated[list[Annotated[str, Meta(min_length=3, max_length=254)]], Meta(max_length=100)]


class NothingSent(Exception):  # stands around its cause, which says what happened
    """The message was not handed over yet: whatever the cause, no answer to it was lost."""


_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
"""One mailbox in its plain form: no list, no display name, no quoted or encoded word, no route, no address literal."""


class EmailResult(TypedDict):
    message_id: str
    accepted: list[str]
    refused: list[str]


@skill(
    "email_send",
    version="1.0.0",
    tool_class="write",
    in_doubt="hold",  # nothing can be read back, and a second mail cannot be taken back
    side_effects=["email_queued"],
    redact=["password"],
    permissions=["network"],
    timeout_ms=60_000,
    failure_modes=[
        "ERR_DNS_FAILURE", "ERR_CONNECTION_REFUSED", "ERR_TIMEOUT", "ERR_SSL_ERROR", "ERR_PERMISSION_DENIED",
        "ERR_VALIDATION_FAILED", "ERR_BLOCKED_HOST", "ERR_STORAGE_QUOTA_EXCEEDED",
    ],
    tags=["network"],
)  # fmt: skip
def email_send(
    ctx: SkillContext,
    to: Annotated[Addresses, Meta(min_length=1)],
    subject: Annotated[str, Meta(max_length=998)],
    body: str,
    sender: Annotated[str, Meta(min_length=3, max_length=254)],
    smtp_host: Annotated[str, Meta(min_length=1, max_length=255)],
    *,
    smtp_port: Annotated[int, Meta(ge=1, le=65535)] = 587,
    security: Security = "starttls",
    username: str | None = None,
    password: str | None = None,
    html: str | None = None,
    cc: Addresses = [],  # noqa: B006 - never changed, and shown in the schema
    bcc: Addresses = [],  # noqa: B006 - never changed, and shown in the schema
    reply_to: str | None = None,
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None,
) -> EmailResult:
    """Sends one mail through an SMTP server.

    The message id is made from the idempotency key, so that a mail which was sent twice can be recognized. SMTP
    itself recognizes nothing: after a crash in doubt the run is held for a person.
    """
    recipients = list(dict.fromkeys([*to, *cc, *bcc]))
    for address in (sender, *recipients, *([reply_to] if reply_to else [])):
        if not _ADDRESS.fullmatch(address) or "=?" in address:
            raise SkillError.of(
                "ERR_VALIDATION_FAILED",
                "each address is one name@domain, in ASCII: no list, no display name, no quotes",
            )
    message = _message(ctx, idempotency_key or ctx.idempotency_key, sender, to, cc, reply_to, subject, body, html)
    with limited(ctx, "email_send", smtp_host), _smtp_errors(ctx):
        addresses = asyncio.run(Guard.of(ctx.context, ctx.services).approve(smtp_host, smtp_port))
        with _connect(ctx, smtp_host, smtp_port, addresses, security) as server:
            if username is not None:
                _login(server, username, password, security)
            refused = _transmit(ctx, server, sender, recipients, message)
    accepted = [address for address in recipients if address not in refused]
    return EmailResult(message_id=str(message["Message-ID"]), accepted=accepted, refused=refused)


def _message(
    ctx: SkillContext,
    key: str,
    sender: str,
    to: list[str],
    cc: list[str],
    reply_to: str | None,
    subject: str,
    body: str,
    html: str | None,
) -> EmailMessage:
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    fields = {"From": sender, "To": ", ".join(to), "Cc": ", ".join(cc), "Reply-To": reply_to, "Subject": subject}
    try:
        for name, value in fields.items():
            if value:
                message[name] = value
                refuse_lines(str(message[name]))
    except ValueError:
        raise SkillError.of(
            "ERR_VALIDATION_FAILED", "an address or the subject holds what no mail header may"
        ) from None
    domain = sender.rpartition("@")[2]
    message["Message-ID"] = f"<{sha256_hex(f'{key}/{sender}'.encode())[:32]}@{domain}>"
    message["Date"] = format_datetime(datetime.fromtimestamp(ctx.clock.now_ms() // 1000, UTC))
    message.set_content(body)
    if html is not None:
        message.add_alternative(html, subtype="html")
    return message


def refuse_lines(header: str) -> None:
    """The library reads `=?utf-8?q?a=0ABcc:_b@c.d?=` as what it stands for, and may write that as lines of its own."""
    if any(char in header for char in "\r\n\0"):
        raise ValueError("a line break in a header")


@contextmanager
def _connect(
    ctx: SkillContext, host: str, port: int, addresses: list[str], security: Security
) -> Iterator[smtplib.SMTP]:
    tls: ssl.SSLContext = ctx.services.get(TLS_SERVICE) or ssl.create_default_context()
    server = PinnedSmtp(host, port, addresses, lambda: ctx.remaining_seconds, tls if security == "tls" else None)
    try:
        server.ehlo_or_helo_if_needed()
        if security == "starttls":
            if not server.has_extn("starttls"):
                raise SkillError.of("ERR_SSL_ERROR", "the mail server offers no STARTTLS")
            server.starttls(context=tls)
            server.ehlo()
        yield server
    finally:
        server.close()


def _login(server: smtplib.SMTP, username: str, password: str | None, security: Security) -> None:
    if security == "none":
        raise SkillError.of("ERR_VALIDATION_FAILED", "a password is not sent without TLS; use starttls or tls")
    try:
        server.login(username, password or "")
    except smtplib.SMTPServerDisconnected:
        raise
    except smtplib.SMTPException as error:
        raise SkillError.of("ERR_PERMISSION_DENIED", "the mail server refused the login") from error


def _transmit(
    ctx: SkillContext, server: smtplib.SMTP, sender: str, recipients: list[str], message: EmailMessage
) -> list[str]:
    """The recipients that the server refused. Until the message itself is handed over, nothing was touched."""
    data = message.as_bytes()
    _expect(server.mail(sender, [f"size={len(data)}"] if server.does_esmtp and server.has_extn("size") else []))
    replies = {address: server.rcpt(address) for address in recipients}
    refused = [address for address, (code, _) in replies.items() if code not in {250, 251}]
    if len(refused) == len(recipients):
        _expect(next(iter(replies.values())))
    for domain in dict.fromkeys(address.rpartition("@")[2] for address in recipients if address not in refused):
        ctx.side_effect("email_queued", domain)
    _expect(server.data(data))
    return refused


def _expect(reply: tuple[int, bytes]) -> None:
    code, text = reply
    if not 200 <= code < 300:
        raise smtplib.SMTPResponseException(code, text)


@contextmanager
def _smtp_errors(ctx: SkillContext) -> Iterator[None]:
    """Replies by their number (RFC 5321): 4yz may be tried again, 5yz may not. Network errors speak for themselves.

    With either the server has declined the message, so that sending it again cannot deliver it twice.
    """
    try:
        yield
    except smtplib.SMTPResponseException as error:
        if 400 <= error.smtp_code < 500 and error.smtp_code != 452:
            text = f"the mail server refuses for now, with {error.smtp_code}"
            raise ConnectionRefusedError(errno.ECONNREFUSED, text) from error
        raise SkillError.of(_code_of(error.smtp_code), f"the mail server answered {error.smtp_code}") from error
    except OSError as error:
        if ctx.report.side_effects:
            raise
        raise NothingSent(str(error)) from error


def _code_of(reply: int) -> str:
    if reply in {530, 534, 535, 538}:
        return "ERR_PERMISSION_DENIED"
    return "ERR_STORAGE_QUOTA_EXCEEDED" if reply in {452, 552} else "ERR_VALIDATION_FAILED"
