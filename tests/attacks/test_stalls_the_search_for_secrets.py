"""A tool answers with what is worst for the search for secrets: neither process nor loop stands still for it."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, skill
from reenact.policy.redaction import PATTERNS, REDACTED, SecretRules
from reenact.runtime.writing import redaction
from reenact.store.checks.verification import verify_run
from reenact.store.sqlite.connection import Connection
from reenact.values.canonical import canonicalize
from tests.secrets.planting import readings, rows

N = 4_000
WORST = [
    "eyJ", "eyJaaaaaaaa.", "eyJaaaaaaaa.eyJ", "SG.", "SG.aaaaaaaaaaaaaaaa", "sk-", "sk-a", "AKIA", "xoxb-", "ghp_a",
    "-----BEGIN ", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE ", "://a:", "://", "://a@",
    "Bearer ", "bearer a", "token", "token=", "token: \\", 'token\\\\\\"', "password='", "api_", "cookie:", "cookie : ",
    "authorization: a ", "\\", "\\u", "\\u00", "\\x4", "%", "%4", "%41", "&", "&#", "&#x4", "&amp", "=", "=4", "=41",
    "=\r", "=\r\n", "\0", "QUJD", "QUJDQUJD\n", "QUJDQUJD\r\n\t", "4a", "4a:", "4a \n", "0x4a", "A_",
    "\\163", "\\01", "\\u{7", "\\u{73}", "\\x{73}", "\\U0000", "%u00", "%u0073", "115, ", "115,\n    ", "1;",
    "0x4a, ", "4a4a4a, x", "MFRGGZDF\n", "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43U ", "\\%41&amp;=41\0",
    "%2541&amp;amp;\\\\u0041",
    "=\r\n  =4", "H4sIAAAAAAAC/0tMSgYAwkEkNQMAAAA ", "eJwDAAAAAAE ", '"a","b",', "A", "a", " ", "\n", '"', "é",
]  # fmt: skip


def seconds(pattern: re.Pattern[Any], text: str) -> float:
    data: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
    began = time.process_time()
    for _ in pattern.finditer(data):
        pass
    pattern.fullmatch(data)
    return time.process_time() - began


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: str(pattern.pattern).strip()[:40])
def test_ten_times_the_text_takes_ten_times_as_long(pattern: re.Pattern[Any]) -> None:
    for worst in WORST:
        for end in ("", "!"):
            short, long = ((worst * (size // len(worst) + 1))[:size] + end for size in (N, 10 * N))
            if seconds(pattern, long) > 0.02:  # then by a better clock
                took = min(seconds(pattern, long) for _ in range(3))
                assert took < 30 * min(seconds(pattern, short) for _ in range(5)), repr(worst)


KNOWN = ("tok-4f9a-very-secret", "postgres://kim:pa55word@db/prod")


@pytest.mark.parametrize("worst", WORST)
def test_the_whole_search_is_linear_too(worst: str) -> None:
    """Decoding and all: what a text is decoded to is searched as well."""
    rules, took = SecretRules(KNOWN), []
    for size in (N, 10 * N):
        text = (worst * (size // len(worst) + 1))[:size]
        began = time.process_time()
        rules.passes(text, canonicalize(text))
        rules.apply(text, lambda _: REDACTED)
        took.append(time.process_time() - began)
    assert took[1] < max(0.5, 30 * took[0])


@skill("worst", version="1.0.0", tool_class="read")
def worst_answer(text: str, times: int) -> dict[str, str]:
    return {"text": text * times}


async def longest_wait(runtime: Runtime, text: str, times: int) -> tuple[float, Any]:
    """(the longest time in which a second task did not come to its turn, what the call gave)"""
    waits, stop = [0.0], asyncio.Event()

    async def tick() -> None:
        last = time.monotonic()
        while not stop.is_set():
            await asyncio.sleep(0.01)
            waits.append(time.monotonic() - last)
            last = time.monotonic()

    async with runtime.session() as session:
        ticking = asyncio.create_task(tick())
        outcome = await session.call("worst", {"text": text, "times": times})
        stop.set()
        await ticking
    return max(waits), outcome


@pytest.mark.parametrize("text", ["eyJ", 'a \\"word\\" ', "%41", "<p>a &amp; b</p>\n"])
def test_the_loop_goes_on_while_a_large_answer_is_searched(tmp_path: Path, text: str) -> None:
    runtime = Runtime(
        f"sqlite:///{tmp_path}/store.db", skills=[worst_answer], secrets=dict(zip("AB", KNOWN, strict=True))
    )
    began = time.monotonic()
    waited, outcome = asyncio.run(longest_wait(runtime, text, 1_000_000 // len(text)))
    took = time.monotonic() - began
    assert outcome.ok
    assert outcome.output["text"].startswith(text)
    assert waited < max(1.0, took / 2), f"a second task waited {waited:.2f} s of {took:.2f} s"


@pytest.mark.parametrize("secret", [KNOWN[0], "sk-abcdefghijklmnopqrstuvwxyz"])
def test_what_is_not_searched_in_time_is_not_written_and_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setattr(redaction, "LONGEST_S", -1.0)
    runtime = Runtime(
        f"sqlite:///{tmp_path}/store.db", skills=[worst_answer], secrets=dict(zip("AB", KNOWN, strict=True))
    )
    monkeypatch.setattr(worst_answer, "call_sync", lambda *_: {"text": f"{'a%41 ' * 100_000}{secret}"})
    with runtime.session() as session:
        outcome = session.call("worst", {"text": "a", "times": 1})
    assert "ERR_REDACTION_TIMEOUT" in str(outcome.output)
    assert secret not in str(outcome)
    assert verify_run(f"sqlite:///{tmp_path}/store.db", session.run_id).exit_code == 0
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes()
    connection = Connection(str(tmp_path / "store.db"))
    cells = [
        reading for table, row in rows(connection.db) for cell in row for reading in readings(connection, table, cell)
    ]
    connection.close()
    assert not any(secret.encode() in cell for cell in cells)
    assert any(b"ERR_REDACTION_TIMEOUT" in cell for cell in cells)
