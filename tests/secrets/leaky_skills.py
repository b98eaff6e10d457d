"""Skills that put a secret where it does not belong, one way each."""

from __future__ import annotations

import base64
import logging
import sqlite3
import threading
from contextlib import closing
from typing import Any
from urllib.parse import quote

from reenact import SkillContext, SkillError, skill
from reenact.skills.skill import Skill
from tests.secrets.planting import BY_SHAPE

ORDERS: dict[str, int] = {}
LET_GO = threading.Event()
"""Lets the thread that outlived its time limit raise what it has to say."""


@skill("in_longer_text", version="1.0.0", tool_class="read")
def in_longer_text(secret: str) -> dict[str, Any]:
    return {"text": f"the token is {secret}, and a URL ends in ?t={secret}&x=1", "deep": [{"list": [secret]}]}


@skill("in_exception", version="1.0.0", tool_class="read", retry={"max_retries": 1, "backoff_base_ms": 0})
def in_exception(secret: str) -> None:
    raise TimeoutError(f"no answer for {secret}")


@skill("in_cause", version="1.0.0", tool_class="read")
def in_cause(secret: str) -> None:
    try:
        ORDERS[secret]
    except KeyError as error:
        raise ValueError(f"cannot use {error}") from error


@skill("in_details", version="1.0.0", tool_class="read")
def in_details(secret: str) -> None:
    raise SkillError.of("ERR_VALIDATION_FAILED", f"{secret} is wrong", given={"nested": [f"<{secret}>"]})


@skill("as_basic_auth", version="1.0.0", tool_class="read")
def as_basic_auth(secret: str) -> dict[str, str]:
    credentials = base64.b64encode(f"user:{secret}".encode()).decode()
    return {"sent": f"authorization is {credentials}", "safe": base64.urlsafe_b64encode(secret.encode()).decode()}


@skill("as_url", version="1.0.0", tool_class="read")
def as_url(secret: str) -> dict[str, str]:
    return {"url": f"https://example.com/?k={quote(secret, safe='')}", "hex": secret.encode().hex()}


@skill("in_progress", version="1.0.0", tool_class="read")
def in_progress(ctx: SkillContext, secret: str) -> None:
    ctx.progress(f"now sending {secret}")


@skill("in_target", version="1.0.0", tool_class="write", side_effects=["http_request"])
def in_target(ctx: SkillContext, secret: str) -> None:
    ctx.side_effect("http_request", f"https://example.com/{secret}")


@skill("in_report", version="1.0.0", tool_class="read")
def in_report(ctx: SkillContext, request_id: str, finish_reason: str, raw: str) -> None:
    ctx.request_id(request_id)
    ctx.finish_reason(finish_reason)
    ctx.response({"all": [f"raw {raw}"]})


@skill("in_child", version="1.0.0", tool_class="read", isolation="process")
def in_child(secret: str) -> None:
    raise SkillError.of("ERR_UNKNOWN", f"the child saw {secret}", seen=secret)


@skill("in_thread", version="1.0.0", tool_class="read", timeout_ms=50)
def in_thread(secret: str) -> None:
    LET_GO.wait(30)
    raise ValueError(f"too late for {secret}")


@skill("in_log", version="1.0.0", tool_class="read")
def in_log(secret: str) -> dict[str, str]:
    """What a skill logs itself is its author's business; this one keeps to the rules."""
    logging.getLogger("leaky").debug("called with %d characters", len(secret))
    return {"echo": secret}


@skill("as_number", version="1.0.0", tool_class="read")
def as_number(secret: str) -> dict[str, Any]:
    return {"number": int(secret), "text": f"no. {secret}"}


@skill("as_key", version="1.0.0", tool_class="read")
def as_key(secret: str) -> dict[str, Any]:
    return {secret: {"of": f"{secret}!"}}


@skill("by_shape", version="1.0.0", tool_class="read", redact=["marked_by_skill"])
def by_shape() -> dict[str, Any]:
    return {
        "headers": {"Set-Cookie": BY_SHAPE["a cookie that a server sets"]},
        "user": {"password": BY_SHAPE["a field called password"]},
        "made": BY_SHAPE["an API key that a tool makes up"],
        "note": f"use {BY_SHAPE['a JWT inside a sentence']} for an hour",
        "address": f"postgres://{BY_SHAPE['a password in an address']}@db.example.com/x",
        "marked_by_skill": BY_SHAPE["a field that the skill marks"],
        "list": [{"marked_by_plan": BY_SHAPE["a field that the plan marks"]}],
    }


@skill("idempotent_echo", version="1.0.0", tool_class="read", idempotent=True)
def idempotent_echo(secret: str) -> dict[str, str]:
    return {"echo": f"<{secret}>"}


@skill("losing_its_lease", version="1.0.0", tool_class="write", honours_key=True, redact=["marked_by_skill"])
def losing_its_lease(ctx: SkillContext, store: str, secret: str) -> dict[str, Any]:
    """While it works another executor takes the run over: what it returns can no longer be recorded."""
    ctx.side_effect("http_request", secret)
    if ctx.run_id:
        with closing(sqlite3.connect(store, timeout=30, isolation_level=None)) as db:
            db.execute(
                "UPDATE runs SET token = token + 1, owner = NULL, expires_ms = 0 WHERE run_id = ?", (ctx.run_id,)
            )
    return {"late": f"got {secret}", "marked_by_skill": BY_SHAPE["a field that the skill marks"]}


SKILLS: list[Skill] = [value for value in list(globals().values()) if isinstance(value, Skill)]
