"""What people and tools say every day, beside secrets of every kind that are known: redaction leaves it as it is."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
from urllib.parse import quote

import pytest

from reenact.policy.redaction import REDACTED, SecretRules
from reenact.values.canonical import canonicalize

KNOWN = (
    "tok-4f9a-very-secret", "Bearer abcdef0123456789abcdef", "postgres://kim:pa55word@db.example.com:5432/production",
    "https://hooks.example.com/services/T00/B00/XxYyZz123456", "sid=abcd1234; theme=dark", "hunter2x", "pässwört-1",
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDx0001\n-----END KEY-----",
)  # fmt: skip
NOISE = random.Random(7).randbytes(3000)
ORDINARY: dict[str, object] = {
    "prose": "The order of 12 May is on its way; it should reach you by Friday.\nYours,\nthe shop\n",
    "prose about secrets": "A token is a word. Passwords: keep them safe. The secret of a good bearer is patience.",
    "prose about logins": "The default login user password is on the machine. A machine needs a login and a password.",
    "accents": "Ça va déjà? Müller wohnt in der Großen Straße, naïve café, 東京, Ω",
    "markdown": "# Title\n\n* one\n* two `code` **bold** [a link](https://example.com/a/b?page=2#top)\n\n> quoted\n",
    "python": 'def f(token: str, *, key: int = 3) -> str:\n    return f"{token[:2]}\\n" + os.environ["API_TOKEN"]\n',
    "javascript": "const token = await getToken(); headers['x-api-key'] = apiKey; /* \\u0041 \\x41 */ `${a}`",
    "shell": 'export TOKEN=$API_TOKEN; curl -H "Authorization: $AUTH" https://example.com/v1/items?limit=10',
    "sql": "SELECT id, name FROM users WHERE key = 'orders' AND token IS NOT NULL ORDER BY 2;",
    "a traceback": 'Traceback (most recent call last):\n  File "/srv/app/main.py", line 31, in run\nKeyError: 3\n',
    "a log": "2026-11-16T08:43:23.123Z INFO  [worker-3] GET /v1/items 200 12ms bytes=5120 request_id=7f3a9c\n" * 5,
    "a git log": f"commit {hashlib.sha1(b'a').hexdigest()}\nAuthor: Kim <kim@example.com>\n\n    Fix the tokens\n",
    "sha256": hashlib.sha256(b"x").hexdigest(),
    "many hashes": "\n".join(f"{hashlib.sha256(bytes([n])).hexdigest()}  file{n}.txt" for n in range(20)),
    "integrity": "sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "UUIDs": "019b76da-a800-7000-8000-000000000001, 7d444840-9dc0-11d1-b245-5ffdce74fad2",
    "an image": "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE).decode(),
    "base64 in lines": base64.encodebytes(NOISE).decode(),
    "base32": base64.b32encode(NOISE[:200]).decode(),
    "gzip in base64": base64.b64encode(gzip.compress(b"nothing of interest\n" * 500, mtime=0)).decode(),
    "a hex dump": "\n".join(f"{at:08x}: {NOISE[at : at + 16].hex(' ')}" for at in range(0, 320, 16)),
    "a MAC address": "00:1b:44:11:3a:b7 is at 192.168.1.20",
    "a public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhZGMwZmZlZWJhZGMwZmZlZWJhZGMwZmZlZWJhZGMw kim@laptop",
    "a certificate": f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(NOISE[:90]).decode()}-----END CERTIFICATE-----",
    "numbers": [1, 2, 3, 115, 51, 99, 114, 255, 0, 17, 4, 90],
    "an embedding": [0.12, -0.5, 0.001, 3.25, -1.5, 0.75, 0.1],
    "bytes of something else": list(b"hello, world, how are you today?"),
    "letters": list("abcdefghijklmnopqrstuvwxyz"),
    "numbers in a text": "115, 51, 99, 114; 12 13 14 15 16 17 18 19 20, [1, 2, 3, 4, 5, 6, 7]",
    "a CSV": "id,name,amount\n1,Ada,12\n2,Kim,13\n3,Eve,14\n",
    "a query": "q=" + quote("what is 50 % of 12 & more? äöü") + "&page=2&next_page_token=abcdef12",
    "HTML": '<p>a &amp; b &lt;c&gt; &#169; &eacute;</p>\n<a href="/x?y=1&amp;z=2">here</a>',
    "quoted-printable": "Gr=C3=BC=C3=9Fe aus M=C3=BCnchen, bis =\r\nbald=2E",
    "JSON in JSON": json.dumps({"a": json.dumps({"b": 'c "d" \\ e\n', "n": [1, 2, 3]})}),
    "a Windows path": "C:\\Users\\kim\\new\\table\\0123\\x64\\u\\file.txt",
    "a regular expression": r"^\s*(?:\d{3}[-. ]?)\w+\u0041\x20$",
    "usage of a model": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150, "model": "m-4-2025-05-14"},
    "a page of results": {"items": [{"id": n, "key": f"item-{n}"} for n in range(9)], "next_page_token": "CAoQAA12"},
    "a plan": {"step_id": "a", "skill_id": "http_call", "parameters": {"url": "https://example.com/", "method": "GET"}},
}  # fmt: skip


@pytest.mark.parametrize("what", ORDINARY)
def test_what_is_said_every_day_stays(what: str) -> None:
    value = ORDINARY[what]
    for rules in (SecretRules(), SecretRules(KNOWN)):
        assert rules.apply(value, lambda _: REDACTED) is value
        assert rules.without_known(value) is value
        assert rules.find(value) == []


def test_the_same_rules_find_what_they_are_for() -> None:
    rules = SecretRules(KNOWN)
    for secret in (
        "tok-4f9a-very-secret",
        "abcdef0123456789abcdef",
        "pa55word",
        "XxYyZz123456",
        "hunter2x",
        "pässwört-1",
    ):
        for value in (f"see {secret}", list(secret.encode()), list(secret), {"a": [list(secret)]}):
            assert not rules.passes(value, canonicalize(value))
            assert rules.apply(value, lambda _: REDACTED) != value
            assert rules.without_known(value) != value
            assert rules.find(value)
