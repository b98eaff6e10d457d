"""email_send against a real SMTP server on loopback."""

from __future__ import annotations

import email
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.policy import default
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from reenact.builtin.email_send import email_send
from reenact.values.clock import FixedClock
from tests.builtin.calling import Called, call
from tests.builtin.servers import unused_port

PASSWORD = "correct horse"


class Inbox:
    """Keeps what arrives. `refuse` maps a command or an address to a reply."""

    def __init__(self, refuse: dict[str, str] | None = None) -> None:
        self.refuse = refuse or {}
        self.messages: list[tuple[list[str], Message]] = []

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return self.refuse.get("MAIL", "250 OK")

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = self.refuse.get(address, "250 OK")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        reply = self.refuse.get("DATA", "250 OK")
        if reply.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.messages.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=default)))
        return reply


def check_password(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    assert isinstance(data, LoginPassword)
    return AuthResult(success=data.password.decode() == PASSWORD, handled=False)


@contextmanager
def serving(inbox: Inbox, **options: Any) -> Iterator[int]:
    controller = Controller(inbox, hostname="127.0.0.1", port=unused_port(), **options)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


def send(port: int, *, services: dict[str, Any] | None = None, **parameters: Any) -> Called:
    base = {
        "to": ["ann@example.org"],
        "subject": "Hello",
        "body": "text\n.dot\n",
        "sender": "agent@example.com",
        "smtp_host": "127.0.0.1",
        "smtp_port": port,
        "security": "none",
    }
    return call(
        email_send,
        {**base, **parameters},
        context={"allow_hosts": [f"127.0.0.1:{port}"]},
        services=services or {},
        clock=FixedClock(start_ms=1_735_689_600_000),
        timeout_ms=30_000,
    )


def test_a_mail_arrives_whole() -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        called = send(
            port,
            subject="Grüezi 🌍",
            html="<p>hi</p>",
            cc=["bob@example.net"],
            bcc=["cy@example.org"],
            reply_to="re@example.com",
        )
    assert called.code == "OK"
    assert called.output["accepted"] == ["ann@example.org", "bob@example.net", "cy@example.org"]
    assert called.report.side_effects == [("email_queued", "example.org"), ("email_queued", "example.net")]
    recipients, message = inbox.messages[0]
    assert recipients == called.output["accepted"]
    assert message["subject"] == "Grüezi 🌍"
    assert (message["to"], message["cc"], message["bcc"]) == ("ann@example.org", "bob@example.net", None)
    assert (message["reply-to"], message["date"]) == ("re@example.com", "Wed, 01 Jan 2025 00:00:00 +0000")
    assert message["message-id"] == called.output["message_id"]
    text, html = list(message.walk())[1:]
    assert text.get_payload(decode=True) == b"text\r\n.dot\r\n"
    assert html.get_payload(decode=True) == b"<p>hi</p>\r\n"


def test_the_message_id_is_a_function_of_the_key() -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        ids = [send(port, idempotency_key=key).output["message_id"] for key in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].endswith("@example.com>")


def test_refused_recipients_are_named_and_the_others_get_their_mail() -> None:
    inbox = Inbox({"nobody@example.org": "550 no such user"})
    with serving(inbox) as port:
        called = send(port, to=["nobody@example.org", "ann@example.org"])
    assert called.output["refused"] == ["nobody@example.org"]
    assert called.output["accepted"] == ["ann@example.org"]
    assert inbox.messages[0][0] == ["ann@example.org"]


@pytest.mark.parametrize(
    ("refuse", "code", "effects"),
    [
        ({"ann@example.org": "550 no such user"}, "ERR_VALIDATION_FAILED", 0),
        ({"ann@example.org": "450 greylisted"}, "ERR_CONNECTION_REFUSED", 0),
        ({"MAIL": "421 too busy"}, "ERR_CONNECTION_REFUSED", 0),
        ({"MAIL": "530 authentication required"}, "ERR_PERMISSION_DENIED", 0),
        ({"MAIL": "552 too large"}, "ERR_STORAGE_QUOTA_EXCEEDED", 0),
        ({"DATA": "554 spam"}, "ERR_VALIDATION_FAILED", 1),
        ({"DATA": "451 try later"}, "ERR_CONNECTION_REFUSED", 1),
    ],
)
def test_replies_are_understood_by_their_number(refuse: dict[str, str], code: str, effects: int) -> None:
    inbox = Inbox(refuse)
    with serving(inbox) as port:
        called = send(port)
    assert called.code == code
    assert len(called.report.side_effects) == effects
    assert inbox.messages == []


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def client_services(authority: trustme.CA) -> dict[str, Any]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return {"tls_context": context}


def test_starttls_and_login(authority: trustme.CA) -> None:
    inbox = Inbox()
    options = {"tls_context": server_context(authority), "authenticator": check_password, "auth_required": True}
    with serving(inbox, **options) as port:
        secure = {"security": "starttls", "services": client_services(authority), "username": "me"}
        assert send(port, **secure, password=PASSWORD).code == "OK"
        assert send(port, **secure, password="wrong").code == "ERR_PERMISSION_DENIED"
        assert send(port, username="me", password=PASSWORD).code == "ERR_VALIDATION_FAILED"
    assert len(inbox.messages) == 1


class TlsController(Controller):
    """TLS from the first byte. The base class checks itself with a plain client, which cannot succeed here."""

    def _trigger_server(self) -> None:
        with socket.create_connection((self.hostname, self.port), timeout=5):
            pass


def test_tls_from_the_first_byte(authority: trustme.CA) -> None:
    inbox = Inbox()
    controller = TlsController(inbox, hostname="127.0.0.1", port=unused_port(), ssl_context=server_context(authority))
    controller.start()
    try:
        assert send(controller.port, security="tls", services=client_services(authority)).code == "OK"
    finally:
        controller.stop()
    assert len(inbox.messages) == 1


def test_a_certificate_that_nobody_vouches_for_is_a_tls_error(authority: trustme.CA) -> None:
    inbox = Inbox()
    with serving(inbox, tls_context=server_context(authority)) as port:
        called = send(port, security="starttls")
    assert called.code == "ERR_SSL_ERROR"
    assert called.report.side_effects == []


def test_a_server_without_starttls_gets_nothing_in_the_clear() -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        called = send(port, security="starttls")
    assert (called.code, inbox.messages) == ("ERR_SSL_ERROR", [])


def test_refused_and_dns_failure_and_blocked() -> None:
    assert send(unused_port()).code == "ERR_CONNECTION_REFUSED"

    async def no_such_name(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert send(25, smtp_host="mail.example", services={"resolver": no_such_name}).code == "ERR_DNS_FAILURE"

    async def inside(host: str, port: int) -> list[str]:
        return ["10.0.0.1"]

    assert send(25, smtp_host="mail.example", services={"resolver": inside}).code == "ERR_BLOCKED_HOST"


@contextmanager
def scripted(*replies: bytes) -> Iterator[int]:
    """A server that says these lines, one per line it hears, and then hangs up or goes silent."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for reply in replies:
                if reply == b"silence":
                    done.wait(10)
                    return
                connection.sendall(reply + b"\r\n")
                lines.readline()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        thread.join(10)
        listener.close()


def test_a_server_that_hangs_up_before_the_message_was_handed_over_was_not_touched() -> None:
    with scripted(b"220 hi", b"250 hello", b"250 ok") as port:
        called = send(port)
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert called.report.side_effects == []


def test_a_server_that_hangs_up_after_the_message_leaves_doubt() -> None:
    with scripted(b"220 hi", b"250 hello", b"250 ok", b"250 ok", b"354 go on") as port:
        called = send(port)
    assert called.code == "ERR_CONNECTION_REFUSED"
    assert called.report.side_effects == [("email_queued", "example.org")]


def test_a_server_that_says_nothing_is_a_timeout() -> None:
    with scripted(b"silence") as port:
        called = call(
            email_send,
            {
                "to": ["a@b.example"], "subject": "s", "body": "b", "sender": "a@b.example",
                "smtp_host": "127.0.0.1", "smtp_port": port, "security": "none",
            },
            context={"allow_hosts": ["127.0.0.1"]},
            timeout_ms=100,
        )  # fmt: skip
    assert called.code == "ERR_TIMEOUT"


@pytest.mark.parametrize(
    "parameters",
    [
        {"to": ["no address"]},
        {"to": ["a@b\r\nRCPT TO:<evil@example.org>"]},
        {"to": ["ann@example.org>"]},
        {"sender": "ä@example.org"},
        {"subject": "one\r\nBcc: evil@example.org"},
        {"reply_to": "a b"},
    ],
)
def test_what_could_smuggle_a_command_or_a_header_is_refused(parameters: dict[str, Any]) -> None:
    inbox = Inbox()
    with serving(inbox) as port:
        called = send(port, **parameters)
    assert called.code == "ERR_VALIDATION_FAILED"
    assert inbox.messages == []


def test_after_a_crash_in_doubt_a_mail_is_held_for_a_person() -> None:
    assert email_send.metadata.in_doubt == "hold"
    assert email_send.metadata.honours_key is False
