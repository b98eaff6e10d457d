"""Somebody with a replay log and its receipt has a guess at a secret: does anything there confirm it?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime, SkillContext, skill
from reenact.record.erase import erase
from reenact.record.export import export_run
from reenact.values.canonical import canonicalize
from reenact.values.legacy_json import code_point_json
from reenact.verify.verifier import verify_bundle

TOKEN = "shop-4711-0815"
LOOKS_LIKE_ONE = "sk-live-" + "Q9x" * 12
PIN = "4711"
HEX = re.compile(r"[0-9a-f]{64}")


@skill("pay", version="1.0.0", tool_class="write", honours_key=True, redact=["pin"])
def pay(ctx: SkillContext, token: str, pin: str, note: str) -> dict[str, str]:
    """Gives back all that it was given."""
    return {"token": token, "pin": pin, "note": note, "said": f"paid with {token}"}


@skill("fail", version="1.0.0", tool_class="read")
def fail(token: str) -> None:
    """Says its secret in an error."""
    raise ValueError(f"{token} was refused")


def run(folder: Path) -> tuple[Path, str]:
    runtime = Runtime(
        folder / "store.db", skills=[pay, fail], secrets={"SHOP_TOKEN": TOKEN}, replay_log=folder / "logs"
    )
    secrets = {"/token": "SHOP_TOKEN"}
    with runtime.session() as session:
        session.call("pay", {"token": "", "pin": PIN, "note": LOOKS_LIKE_ONE}, secrets=secrets)
        session.call("fail", {"token": ""}, secrets=secrets)
        session.verify([f"echo {TOKEN}"])
    runtime.close()
    export_run(str(folder / "store.db"), session.run_id, folder / "bundle")
    assert verify_bundle(folder / "bundle").exit_code == 0
    return folder / "bundle", session.run_id


def texts(folder: Path, run_id: str) -> Iterator[str]:
    yield (folder / "REPLAY.jsonl").read_text()
    yield (folder / "RECEIPT.json").read_text()
    yield (folder.parent / "logs" / f"{run_id}.jsonl").read_text()


def filled(value: Any, guess: dict[str, str]) -> Iterator[Any]:
    """What was there, by somebody who knows all but the secret: each mark replaced by a guess."""
    if value in ({"$redacted": True}, {"$erased": True}, "[redacted]"):
        yield from guess.values()
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: each} for each in filled(inner, guess))
    elif isinstance(value, str) and "[redacted]" in value:
        yield from (value.replace("[redacted]", each) for each in guess.values())


def candidates(events: list[dict[str, Any]]) -> Iterator[Any]:
    guess = {"token": TOKEN, "pin": PIN, "note": LOOKS_LIKE_ONE}
    whole = {"token": TOKEN, "pin": PIN, "note": LOOKS_LIKE_ONE}
    output = {**whole, "said": f"paid with {TOKEN}"}
    for value in (whole, output, f"{TOKEN}\n", *guess.values(), {"token": TOKEN}):
        yield value
        yield {"content": value, "error": None, "success": True}
        yield {"content": None, "error": {"code": "ERR_UNKNOWN", "message": f"{TOKEN} was refused"}, "success": False}
    for event in events:
        for name in ("params", "outputs"):
            yield from filled(event.get(name), guess)
        with_marks = event.get("output_preview")
        if isinstance(with_marks, str) and with_marks.startswith("{"):
            for value in filled(json.loads(with_marks), guess):
                yield value
                yield {"content": value, "error": None, "success": True}


def digests(value: Any) -> Iterator[str]:
    forms = {canonicalize(value), code_point_json(value)}
    if isinstance(value, str):
        forms.add(value.encode())
    yield from (sha256(form).hexdigest() for form in forms)


def test_no_hash_in_it_is_one_of_what_was_taken_out(tmp_path: Path) -> None:
    bundle, run_id = run(tmp_path)
    events = [json.loads(line) for line in (bundle / "REPLAY.jsonl").read_text().splitlines()]
    guessed = {digest for value in candidates(events) for digest in digests(value)}
    for text in texts(bundle, run_id):
        for secret in (TOKEN, LOOKS_LIKE_ONE, f'"{PIN}"'):
            assert secret not in text
        assert not guessed & set(HEX.findall(text))
    [call] = [event for event in events if event.get("tool") == "pay"]
    assert call["params"] == {
        "note": {"$redacted": True}, "pin": {"$redacted": True}, "token": {"$secret": "SHOP_TOKEN"},
    }  # fmt: skip
    assert "$sealed" not in (bundle / "REPLAY.jsonl").read_text()


def test_what_stands_there_for_two_secrets_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but times and ids differs: so nothing tells which of them it was."""
    seen = []
    for pin in ("4711", "0815"):
        monkeypatch.setattr("tests.attacks.test_tries_guesses_on_a_replay_log.PIN", pin)
        bundle, _ = run(tmp_path / pin)
        events = [json.loads(line) for line in (bundle / "REPLAY.jsonl").read_text().splitlines()]
        hashes = [event[name] for event in events for name in ("params_hash", "output_hash") if name in event]
        seen.append(hashes)
    assert seen[0] == seen[1]


def test_after_an_erasure_no_guess_at_what_was_erased_is_confirmed(tmp_path: Path) -> None:
    @skill("visit", version="1.0.0", tool_class="read")
    def visit(ward: str) -> str:
        """Says where somebody lies."""
        return f"she lies in {ward}"

    runtime = Runtime(tmp_path / "store.db", skills=[visit])
    with runtime.session() as session:
        session.call("visit", {"ward": "oncology"})
    erase(runtime.store, session.run_id, None, who="ann", reason="asked for")
    runtime.close()
    export_run(str(tmp_path / "store.db"), session.run_id, tmp_path / "bundle")
    assert verify_bundle(tmp_path / "bundle").exit_code == 0
    text = "".join((tmp_path / "bundle" / name).read_text() for name in ("REPLAY.jsonl", "RECEIPT.json"))
    said = {"content": "she lies in oncology", "error": None, "success": True}
    guessed = {digest for value in ({"ward": "oncology"}, said, "she lies in oncology") for digest in digests(value)}
    assert "oncology" not in text
    assert not guessed & set(HEX.findall(text))
    assert '"params":{"$erased":true}' in text
    assert '"policy_version":"erased"' in text
