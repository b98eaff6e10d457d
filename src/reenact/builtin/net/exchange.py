"""One HTTP exchange as a skill makes it: redirects followed under guard, time and size bounded, facts reported."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reenact.builtin.extras import require
from reenact.builtin.limiter import limited
from reenact.builtin.net.body import ACCEPT_ENCODING, decode_body, read_body
from reenact.builtin.net.quiet import quiet
from reenact.builtin.net.retry_after import retry_after_ms
from reenact.builtin.net.transport import guarded_transport, on_first_byte, timeouts
from reenact.errors import SkillError
from reenact.skills.context import SkillContext

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 10
DEFAULT_MAX_BYTES = 10_000_000
USER_AGENT = "reenact"
_DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": ACCEPT_ENCODING, "user-agent": USER_AGENT}
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "x-correlation-id")
# What may go to another origin than the one that the plan named; credentials of any name may not.
_HEADERS_FOR_STRANGERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_FORBIDDEN_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


@dataclass(frozen=True)
class Outgoing:
    """What is to be sent, and how much may come back."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    params: dict[str, str] = field(default_factory=dict)
    timeout_ms: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    follow_redirects: bool = True


@dataclass(frozen=True)
class Incoming:
    """What came back."""

    status: int
    headers: dict[str, str]
    body_format: str
    body: Any
    url: str

    def as_output(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "headers": self.headers,
            "format": self.body_format,
            "body": self.body,
            "url": self.url,
        }


async def exchange(ctx: SkillContext, outgoing: Outgoing, *, skill: str, effect: str) -> Incoming:
    """Sends and receives. A status of 400 or more raises the library's HTTPStatusError, after it was reported.

    The side effect `effect` is reported once for each origin, when the first byte is about to leave to it: an attempt
    that failed in name resolution, in connecting or in the TLS handshake touched nothing.
    """
    url = parse_url(outgoing.url, skill=skill).copy_merge_params(outgoing.params)
    check_headers(outgoing.headers)
    seconds = _seconds(ctx, outgoing)
    with limited(ctx, skill, url.host), quiet():
        try:
            async with asyncio.timeout(seconds), guarded_transport(ctx, skill) as transport:
                touched = Touched(ctx, effect, timeouts(seconds))
                return await _follow(ctx, transport, url, outgoing, touched)
        except TimeoutError as error:
            import httpx2

            raise httpx2.ReadTimeout(f"no complete response within {round(seconds * 1000)} ms") from error


@dataclass
class Touched:
    """The origins that a call has reached: each is a side effect of its own. A further one is named in full."""

    ctx: SkillContext
    effect: str
    timeouts: dict[str, float]
    origins: list[tuple[str, str, int]] = field(default_factory=list)

    def extensions(self, url: httpx2.URL) -> dict[str, Any]:
        """For a request to an origin: what reports it when the first byte leaves."""

        def report() -> None:
            origin = _origin(url)
            if origin not in self.origins:
                self.origins.append(origin)
                scheme, host, port = origin
                self.ctx.side_effect(self.effect, host if len(self.origins) == 1 else f"{scheme}://{host}:{port}")

        return {"timeout": self.timeouts, **on_first_byte(report)}


def parse_url(text: str, *, skill: str) -> httpx2.URL:
    """An absolute http or https URL with a host, or `ERR_VALIDATION_FAILED`."""
    require("httpx2", extra="http", skill=skill)
    import httpx2

    wrong = why_no_address(text)
    if wrong is not None:
        raise SkillError.of("ERR_VALIDATION_FAILED", f"url: {wrong}")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise SkillError.of("ERR_VALIDATION_FAILED", "url: this is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise SkillError.of("ERR_VALIDATION_FAILED", "url: an absolute http or https URL is needed")
    if url.userinfo or "@" in url.netloc.decode("ascii", "replace"):
        raise SkillError.of("ERR_VALIDATION_FAILED", "url: credentials belong into headers, as a secret")
    return url


def why_no_address(text: str) -> str | None:
    """What programs read differently, so that one checks a host and another is reached: it is not guessed at."""
    if "\\" in text:
        return "a backslash has no place in a URL; write / or %5C"
    if not text.isprintable():
        return "control characters have no place in a URL; write them as %0A and the like"
    authority = text.partition("//")[2]
    for end in "/?#":
        authority = authority.partition(end)[0]
    if "@" in authority:
        return "credentials belong into headers, as a secret"
    if "%" in authority or " " in authority:
        return "a host is written without spaces and escapes"
    return None


def check_headers(headers: dict[str, str]) -> None:
    """Refuses what would change the framing or the addressee of the request."""
    for name, value in headers.items():
        if name.lower() in _FORBIDDEN_HEADERS:
            raise SkillError.of("ERR_VALIDATION_FAILED", f"headers: {name} is set by the transport and cannot be given")
        if not name or any(char in name + value for char in "\r\n\0"):
            raise SkillError.of("ERR_VALIDATION_FAILED", "headers: a name or value holds a line break")


def _seconds(ctx: SkillContext, outgoing: Outgoing) -> float:
    own = ctx.timeout_ms if outgoing.timeout_ms is None else outgoing.timeout_ms
    return max(0.001, min(own / 1000, ctx.remaining_seconds))


async def _follow(
    ctx: SkillContext,
    transport: httpx2.AsyncHTTPTransport,
    url: httpx2.URL,
    outgoing: Outgoing,
    touched: Touched,
) -> Incoming:
    import httpx2

    for _ in range(MAX_REDIRECTS + 1):
        request = httpx2.Request(
            outgoing.method,
            url,
            headers={**_DEFAULT_HEADERS, **_lower(outgoing.headers)},
            content=outgoing.content,
            extensions=touched.extensions(url),
        )
        response = await transport.handle_async_request(request)
        response.request = request
        try:
            _report(ctx, response)
            target = _redirect_target(response) if outgoing.follow_redirects else None
            if target is None:
                return await _receive(ctx, response, outgoing)
        finally:
            await response.aclose()
        outgoing = _redirected(outgoing, response, target)
        url = target
    raise httpx2.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects", request=request)


def _report(ctx: SkillContext, response: httpx2.Response) -> None:
    wait = retry_after_ms(response.headers.get("retry-after"), ctx.clock.now_ms())
    if wait is not None:
        ctx.retry_after(wait)
    named = next((response.headers[name] for name in _REQUEST_ID_HEADERS if name in response.headers), None)
    if named:
        ctx.request_id(named[:200])


async def _receive(ctx: SkillContext, response: httpx2.Response, outgoing: Outgoing) -> Incoming:
    accepted = _is_accepted(response.status_code, outgoing)
    if response.status_code < 300 or not accepted:
        ctx.http_status(response.status_code)
    body_format, body = decode_body(
        await read_body(response, outgoing.max_bytes), response.headers.get("content-type", "")
    )
    incoming = Incoming(
        status=response.status_code,
        headers=dict(sorted(response.headers.items())),
        body_format=body_format,
        body=body,
        url=str(response.request.url),
    )
    if not accepted:
        ctx.response(incoming.as_output())
        raise _refusal(response)
    return incoming


def _is_accepted(status: int, outgoing: Outgoing) -> bool:
    """A 304 answers a condition that the plan set, and a redirect that is not to be followed is what it wanted."""
    return status < 300 or status == 304 or (status < 400 and not outgoing.follow_redirects)


def _refusal(response: httpx2.Response) -> Exception:
    import httpx2

    text = f"the server answered {response.status_code}"
    if response.status_code < 400:
        return SkillError.of("ERR_UNKNOWN", text)
    return httpx2.HTTPStatusError(text, request=response.request, response=response)


def _redirect_target(response: httpx2.Response) -> httpx2.URL | None:
    location = response.headers.get("location")
    if response.status_code not in {301, 302, 303, 307, 308} or location is None:
        return None
    import httpx2

    wrong = why_no_address(location)
    if wrong is not None:
        raise SkillError.of("ERR_BLOCKED_HOST", f"the server redirects to what is no clear URL: {wrong}")
    try:
        target = response.request.url.join(location)
    except (httpx2.InvalidURL, ValueError):
        raise SkillError.of("ERR_UNKNOWN", "the server redirects to what is no URL") from None
    if target.userinfo:
        raise SkillError.of("ERR_BLOCKED_HOST", "the server redirects to an address with credentials")
    if target.scheme not in {"http", "https"} or not target.host:
        raise SkillError.of("ERR_BLOCKED_HOST", "the server redirects to something other than http or https")
    return target


def _redirected(outgoing: Outgoing, response: httpx2.Response, target: httpx2.URL) -> Outgoing:
    """The next request: without a body where the method becomes GET, without credentials where the origin changes.

    To another origin no body goes either: a 307 or 308 that asks for that is refused, since it was meant for one host.
    """
    headers = _lower(outgoing.headers)
    method, content = outgoing.method, outgoing.content
    if response.status_code == 303 or (response.status_code in {301, 302} and method == "POST"):
        method, content = ("HEAD" if method == "HEAD" else "GET"), None
        headers.pop("content-type", None)
    if _origin(response.request.url) != _origin(target):
        if content is not None:
            raise SkillError.of(
                "ERR_BLOCKED_HOST",
                f"the server answers {response.status_code} and sends the body on to another origin, {target.host}; "
                "if that is meant, call that URL itself",
                host=target.host,
                reason="body_to_another_origin",
            )
        headers = {name: value for name, value in headers.items() if name in _HEADERS_FOR_STRANGERS}
    return replace(outgoing, method=method, content=content, headers=headers, params={})


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _lower(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
