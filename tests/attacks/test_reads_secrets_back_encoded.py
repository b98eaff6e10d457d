"""A tool gives a secret back in an encoding, or a part of it alone: it is found as if it stood there as it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import skill
from reenact.errors import PlanError
from reenact.policy.redaction import REDACTED, SecretRules
from reenact.policy.secrets.parts import parts_of
from reenact.runtime.effects.reports import LONGEST_HEARD, LONGEST_TEXT
from reenact.values.canonical import canonicalize
from tests.attacks.encodings import ENCODINGS, folded, in_base64
from tests.runtime.running import Bench, outcome_of, step

SECRETS = ["tok-4f9a-very-secret", 'p<a>ss/"w\\rd&+ü=%41 x', "s3cr3t/+value=ü!", "AbCdEf12", "q&x=3d ab/?"]
AROUND = [("", ""), ("before ", " after"), ("the key is ", ", ok"), ("x", "y"), ("a=", "&b=1")]


def test_there_are_twenty_and_more() -> None:
    assert len(ENCODINGS) >= 20


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_known_secret_is_found_in(encoding: str) -> None:
    for secret in SECRETS:
        rules, written = SecretRules([secret]), ENCODINGS[encoding](secret)
        for before, after in AROUND:
            text = f"{before}{written}{after}"
            for value in (text, {"deep": [text]}):
                assert not rules.passes(value, canonicalize(value)), (secret, text)
                assert rules.apply(value, lambda _: REDACTED) != value
                assert rules.without_known(value) != value
            left = str(rules.apply(text, lambda _: REDACTED))
            assert written not in left
            assert REDACTED in left


@pytest.mark.parametrize("margin", ["", " ", "\t", "> ", " | ", " * ", "# "])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "=\n", "\\n"])
def test_a_fold_beside_a_space_or_sign_of_its_own_hides_nothing(line_end: str, margin: str) -> None:
    secret = 'x=K 0>"WD e>|B8*#8 hKo  04Tha7'
    rules = SecretRules([secret])
    for width in range(1, len(secret)):
        text = f"it is {folded(secret, width, line_end + margin)}, ok"
        assert rules.apply_text(text, lambda _: REDACTED) == f"it is {REDACTED}, ok", (width, text)


NETRC = {
    "machine api.example.com login agent password {}": 1,
    "machine api.example.com\n  login agent\n  account x\n  password {}\n": 1,
    "machine h\tlogin u\r\n\tpassword {}": 1,
    "default login anonymous\npassword {}": 1,
    "it has:\nmachine a password {} login b\nmachine b login c password {}\nmacdef init\n": 2,
}


@pytest.mark.parametrize("written", NETRC)
@pytest.mark.parametrize("password", ["p", "s3cr3tPa55", '"with a space"', "back\\slash"])
def test_passwords_of_a_netrc_are_found_by_their_place(written: str, password: str) -> None:
    for text in (written, json.dumps({"stdout": written})[1:-1]):
        value = {"text": text.replace("{}", password)}
        assert not SecretRules().passes(value, canonicalize(value))
        assert SecretRules().apply(value, lambda _: REDACTED) == {"text": text.replace("{}", REDACTED)}


def test_a_secret_that_is_a_netrc_has_its_passwords_for_parts() -> None:
    secret = "machine a.example login agent password s3cr3tPa55\nmachine b\n\tlogin Agent-22\n\tpassword 0therOne\n"
    assert {"s3cr3tPa55", "0therOne", "Agent-22"} <= parts_of(secret)
    assert "agent" not in parts_of(secret)


SPELT = {
    "bytes": lambda text: list(text.encode()),
    "bytes with signs": lambda text: [byte - 256 if byte > 127 else byte for byte in text.encode()],
    "bytes by their place": lambda text: {str(at): byte for at, byte in enumerate(text.encode())},
    "characters": list,
    "hex": lambda text: [f"{byte:02x}" for byte in text.encode()],
    "hex with 0x": lambda text: [f"0x{byte:02X}" for byte in text.encode()],
    "octal": lambda text: [f"0o{byte:o}" for byte in text.encode()],
    "lines of base64": lambda text: folded(in_base64("xx" + text + text), 20, "|").split("|"),
}


@pytest.mark.parametrize("how", SPELT)
def test_a_list_that_spells_one_is_found(how: str) -> None:
    for secret in SECRETS:
        rules, value = SecretRules([secret]), {"deep": [SPELT[how](secret)]}
        assert not rules.passes(value, canonicalize(value)), secret
        assert rules.apply(value, lambda _: REDACTED) == rules.without_known(value) == {"deep": [REDACTED]}
        assert rules.find(value)


@pytest.mark.parametrize("change", [str.upper, str.lower])
def test_its_case_does_not_hide_it(change: Callable[[str], str]) -> None:
    """As a host's name comes back, or a header."""
    value = {"url": f"https://{change('tok-4F9a-very-Secret')}.example.com/"}
    rules = SecretRules(["tok-4F9a-very-Secret", "Constantinople"])
    assert not rules.passes(value, canonicalize(value))
    assert rules.apply(value, lambda _: REDACTED) == {"url": f"https://{REDACTED}.example.com/"}
    assert rules.apply_text("constantinople", lambda _: REDACTED) == "constantinople"


PEM = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDx0001\n-----END PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("secret", "parts"),
    [
        ("Bearer abcdef012345", {"abcdef012345"}),
        ("BEARER abcdef012345", {"abcdef012345"}),
        ("kim:pa55word", {"pa55word", base64.b64encode(b"kim:pa55word").decode()}),
        ("Basic " + base64.b64encode(b"kim:pa55w0rd").decode(), {"pa55w0rd"}),
        ("postgres://kim:pa%24%24word@db.example.com:5432/production", {"pa$$word", "pa%24%24word"}),
        ("https://hooks.example.com/services/T00/B00/XxYyZz123456", {"XxYyZz123456"}),
        ("https://blob.example.com/x?sv=2020&sig=abc%2Bdef%3D", {"abc%2Bdef%3D", "abc+def="}),
        ("https://api.example.com/v1?token=abcdefgh&x=1", {"abcdefgh"}),
        ("sid=abcd1234; theme=dark", {"abcd1234"}),
        ("Server=db;User=sa;Password=Hunter22;", {"Hunter22"}),
        ("host=db user=kim password=hunter2", {"hunter2"}),
        (PEM, {"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQDx0001"}),
        ('{"type": "service_account", "private_key": "abc-def-ghi"}', {"abc-def-ghi"}),
        (PEM.replace("\n", "\\n"), {"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQDx0001"}),
        ('{"web": {"id": 1, "keys": [{"client_secret": "abc-def-ghi"}]}}', {"abc-def-ghi"}),
        ("Authorization: Bearer abcdef012345", {"abcdef012345", "Bearer abcdef012345"}),
        ("Authorization=Bearer%20abcdef012345", {"abcdef012345"}),
        ("X-Api-Key: abcdefghij", {"abcdefghij"}),
        ("Basic " + base64.b64encode(b"kim:correct horse battery").decode(), {"correct horse battery"}),
        ('Digest username="kim", response="6629fae49393", nonce="x"', {"6629fae49393"}),
        ("A=1\nexport API_TOKEN='abcdefghij'\n", {"abcdefghij"}),
        ("[default]\naws_secret_access_key = abcdefghij\n", {"abcdefghij"}),
        ("users:\n- user:\n    token: abcdefghij\n", {"abcdefghij"}),
        ("MODE=x\nDATABASE_URL=postgres://kim:pa55word@db/x\n", {"pa55word"}),
        ("  padded-secret\n", {"padded-secret"}),
    ],
)
def test_a_part_that_opens_something_is_hidden_alone(secret: str, parts: set[str]) -> None:
    assert parts <= parts_of(secret)
    rules = SecretRules([secret])
    for part in parts:
        assert part not in str(rules.apply(f"see {part} there", lambda _: REDACTED))


@pytest.mark.parametrize(
    ("secret", "word"),
    [
        ("postgres://kim:pa55word@db.example.com:5432/production", "production"),
        ("postgres://kim:pa55word@db.example.com:5432/production", "db.example.com"),
        ("postgres://postgres:postgres@localhost/postgres", "postgres"),
        ("https://kim:pa55word@api.example.com/accounts", "accounts"),
        ("administrator:pa55word", "administrator"),
        ("sid=abcd1234; theme=darkmode", "darkmode"),
        ("REGION=eu-west-1\nTOKEN=abcdefghij", "eu-west-1"),
        ('{"token": "abcdefghij", "until": "2027-01-01T00:00:00Z"}', "at 00:00:00Z"),
        ('{"type": "service_account", "private_key": "abc-def-ghi"}', "service_account"),
    ],
)
def test_words_that_stand_everywhere_are_not_eaten(secret: str, word: str) -> None:
    text = f"the {word} is up"
    assert SecretRules([secret]).apply(text, lambda _: REDACTED) is text


NAMES = [
    "token", "secret", "pwd", "passphrase", "access_key", "accessKey", "ACCESS-KEY", "api_key", "apiKey",
    "client_secret", "private_key", "Authorization", "cookie", "Set-Cookie", "github_token", "githubToken",
    "DB_PASSWORD", "x-api-key", "aws_secret_access_key", "refresh_token", "session_token", "signing_key",
    "smtp-password",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_field_is_known_by_its_name(name: str) -> None:
    value = {"a": [{name: "hunter2x"}]}
    assert not SecretRules().passes(value, canonicalize(value))
    assert SecretRules().apply(value, lambda _: REDACTED) == {"a": [{name: REDACTED}]}


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 1000}, {"token_count": 5}, {"prompt_tokens": 7, "tokens": [1, 2]},
        {"next_page_token": "abcdef12"},
        {"nextPageToken": "abcdef12"}, {"continuation_token": "abcdef12"}, {"eos_token": "</s>"}, {"token": 5},
        {"token": True}, {"secret": None}, {"secret": "SHOP_TOKEN"}, {"key": "orders"}, {"tokenizer": "cl100k_base"},
        {"properties": {"token": {"type": "string", "pattern": "x"}}}, {"session": "monday"}, {"passed": "three"},
    ],
)  # fmt: skip
def test_a_field_that_only_sounds_like_one_stays(value: dict[str, object]) -> None:
    assert SecretRules().apply(value, lambda _: REDACTED) is value


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("BEARER abcdefghijklmnopqrs", "BEARER [redacted]"),
        ("https://x.example/?token=abcdefg&x=1", "https://x.example/?token=[redacted]&x=1"),
        ("https://x.example/?sig=abcdefg", "https://x.example/?sig=[redacted]"),
        ("password=hunter22 ok", "password=[redacted] ok"),
        ("PGPASSWORD=correcthorse psql", "PGPASSWORD=[redacted] psql"),
        ("pwd: hunter2", "pwd: [redacted]"),
        ('{"password": "hunter2"}', '{"password": "[redacted]"}'),
        ('"{\\"password\\": \\"hunter2\\"}"', '"{\\"password\\": \\"[redacted]\\"}"'),
        ("X-Api-Key: abc123def", "X-Api-Key: [redacted]"),
        ("Cookie: sid=abc123; b=c", "Cookie: [redacted]"),
        ("AccountKey=abcdefgh+/==;x", "AccountKey=[redacted];x"),
        ("postgres://kim:a:b:c@db/x", "postgres://[redacted]@db/x"),
    ],
)
def test_a_text_that_gives_one_away_is_found(text: str, left: str) -> None:
    assert not SecretRules().passes(text, canonicalize(text))
    assert SecretRules().apply(text, lambda _: REDACTED) == left


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100000", "next_page_token=abcdef123456", "token: required", "the secret: nobody knows it",
        "prompt_tokens: 1234567", "token = get_token()", "password=user_password", "token_count=123456",
        "eyJhbGciOiJIUzI1NiJ9", "password={{login.password}}", "PASSWORD=$DB_PASSWORD", "password: <hidden>",
    ],
)  # fmt: skip
def test_prose_and_code_that_speak_of_one_stay(text: str) -> None:
    assert SecretRules().apply(text, lambda _: REDACTED) is text


def test_a_tool_cannot_hide_a_secret_in_a_mark() -> None:
    rules = SecretRules(["tok-4f9a-very-secret"])
    for mark in ({"$secret": "tok-4f9a-very-secret"}, {"$secret": "A", "prefix": "tok-4f9a-very-secret"}):
        assert rules.apply({"x": mark}, lambda _: REDACTED) == {"x": REDACTED}


# -- {"$secret": NAME, "prefix": …} ------------------------------------------------------------------------------------


@skill("send", version="1.0.0", tool_class="read")
def send(headers: dict[str, str]) -> dict[str, Any]:
    return {"got": headers["authorization"] == "Bearer tok-4f9a-very-secret;v=1", "echo": headers["authorization"]}


def test_a_secret_with_a_prefix_is_put_together_for_the_skill_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, send, secrets={"SHOP": "tok-4f9a-very-secret"})
    mark = {"$secret": "SHOP", "prefix": "Bearer ", "suffix": ";v=1"}
    result = bench.run(step(send, {"headers": {"authorization": mark}}))
    assert outcome_of(result).output == {"got": True, "echo": "Bearer [redacted];v=1"}
    bench.check(result)
    assert b"tok-4f9a" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "mark",
    [
        {"$secret": 5}, {"$secret": "A", "prefx": "x"}, {"$secret": "A", "prefix": 5}, {"$secret": "A", "prefix": ""},
        {"$secret": "A", "suffix": "a\nb"}, {"$secret": "A", "prefix": "{{s0}}"}, {"$secret": "A", "prefix": "x" * 257},
        {"$secret": "A", "prefix": "sk-abcdefghijklmnopqrstuvwxyz"},
    ],
)  # fmt: skip
def test_one_that_is_written_wrongly_starts_no_run(tmp_path: Path, mark: dict[str, object]) -> None:
    bench = Bench(tmp_path, send, secrets={"A": "tok-4f9a-very-secret"})
    with pytest.raises(PlanError, match=r"plan: \$\.steps\[0\]\.parameters.*headers.*authorization"):
        bench.run(step(send, {"headers": {"authorization": mark}}))
    assert bench.store.runs() == []


# -- a message that ends inside a secret -------------------------------------------------------------------------------


@skill("fail", version="1.0.0", tool_class="read")
def fail(token: str, before: int) -> None:
    raise ValueError("x " * (before // 2) + token + " and more" * 9)


@pytest.mark.parametrize("before", [LONGEST_TEXT - 10, LONGEST_HEARD - 10])
def test_a_message_is_cut_after_secrets_are_taken_out_of_it(tmp_path: Path, before: int) -> None:
    """Where it is cut in the middle of one, what is left of it would not be known."""
    bench = Bench(tmp_path, fail, secrets={"SHOP": "tok-4f9a-very-secret"})
    result = bench.run(step(fail, {"token": {"$secret": "SHOP"}, "before": before}))
    assert "tok-4f" not in str(result.outcomes)
    assert len(outcome_of(result).message) <= LONGEST_TEXT
