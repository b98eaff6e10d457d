"""The examples that `docs/spec/` prints, taken from the same runs as the vectors."""

from __future__ import annotations

import base64
import hmac
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

import reenact.verify
from reenact.values.canonical import canonicalize
from reenact.values.digest import ZERO_DIGEST, hmac_hex, sha256_hex
from reenact.values.envelope import make_envelope
from reenact.values.ids import project_uuid7
from reenact.verify import CODES
from tools.vectors.bundle_vectors import stored, with_views
from tools.vectors.pieces import (
    KEY_SECRET,
    STORE_ID,
    Json,
    at,
    b64,
    key_of,
    kid_of,
    plan_hash,
    public_bytes,
    salt,
    tree_root,
    uid,
)
from tools.vectors.replay_log_vectors import replay_log_vectors
from tools.vectors.scenarios import SKILLS, lost_answer, refusals, session, three_steps
from tools.vectors.writer import Run, bundle_files, erasure, packed_lines, removal

BLOCK = re.compile(r"<!-- (bytes: ([a-z_-]+)|steps|codes) -->\n.*?<!-- /(?:bytes|steps|codes) -->", re.DOTALL)


def lines_of(run: Run) -> list[Json]:
    return [msgspec.json.decode(line) for line in b"".join(run.bodies).splitlines()]


def pick(run: Run, kind: str, **wanted: Any) -> Json:
    """The first line of a kind whose record has the wanted values."""
    for line in lines_of(run):
        record = line.get(kind, {})
        if line["kind"] == kind and all(record.get(key) == value for key, value in wanted.items()):
            return line
    raise LookupError(kind)


def pretty(value: Any) -> str:
    return msgspec.json.format(canonicalize(value), indent=2).decode()


def fenced(text: str, language: str = "json") -> str:
    return f"```{language}\n{text}\n```"


def canonical(value: Any) -> str:
    return fenced(canonicalize(value).decode())


def examples() -> dict[str, str]:
    """Name of a block to the text that stands in it."""
    parts = journal_examples(), value_examples(), run_examples(), note_examples(), replay_log_examples()
    return {name: text for part in parts for name, text in part.items()}


def replay_log_examples() -> dict[str, str]:
    """A replay log, its receipt, and hashes of one value in both forms."""
    vectors, run = replay_log_vectors(), three_steps()
    views = with_views(bundle_files(run), run.run_id)
    forms = [
        f"in the log   {case['json']}\nRFC 8785     {case['rfc_8785'] or '(no double is this integer)'}\n"
        f"code points  {case['code_points']}"
        for case in vectors["hashes"]
    ]
    return {
        "replay_log": fenced(vectors["log"].removesuffix("\n"), "text"),
        "replay_receipt": fenced(pretty(vectors["receipt"])),
        "replay_hashes": fenced("\n\n".join(forms), "text"),
        "written_log": fenced(views["REPLAY.jsonl"].decode().removesuffix("\n"), "text"),
        "written_receipt": fenced(pretty(msgspec.json.decode(views["RECEIPT.json"]))),
    }


def note_examples() -> dict[str, str]:
    """A rotation, and the note by which the old key vouches for the new one."""
    old, new, store_id = key_of("store"), key_of("next"), uid(1)
    record = {
        "new_key": b64(public_bytes(new)),
        "new_kid": kid_of(new),
        "old_kid": kid_of(old),
        "schema": "reenact.key_rotation.v1",
        "ts": at(0),
        "who": "ada",
    }
    raw = canonicalize(record)
    signed = f"{record['schema']}\n{store_id}\n{sha256_hex(raw)}\n"
    lines = [
        f"record     {raw.decode()}",
        f"digest     {sha256_hex(raw)}",
        f"store_id   {store_id}",
        f"text       {json_text(signed)}",
        f"kid        {kid_of(old)}",
        f"signature  {old.sign(signed.encode()).hex()}",
    ]
    return {"note": fenced("\n".join(lines), "text"), **signed_note_examples()}


def signed_note_examples() -> dict[str, str]:
    """The note about a seal as other programs read it, and the key that they check it with."""
    run = three_steps()
    assert run.seal_record is not None
    files = bundle_files(run)
    name, raw = f"reenact/{STORE_ID}", b"\x01" + public_bytes(run.key)
    key_id = sha256(name.encode() + b"\n" + raw).hexdigest()[:8]
    vkey = f"{name}+{key_id}+{base64.b64encode(raw).decode()}"
    trusted = f"# whose word counts here, and for what\nacme billing  seals,capabilities,log  {vkey}"
    return {
        "signed-note": fenced(files["seal.note"].decode().rstrip("\n"), "text"),
        "vkey": fenced(vkey, "text"),
        "note-line": fenced(files["notes.jsonl"].decode().rstrip("\n"), "text"),
        "trusted-keys": fenced(trusted, "text"),
    }


def archived_record(record: Json) -> Json:
    """The record that follows, of a value that was moved to the bundle of the page about bundles."""
    manifest = msgspec.json.decode(bundle_files(refusals(), packed=True)["manifest.json"])
    return removal(record["commitment"], record, "archived", manifest["digest"])


def packed_example() -> str:
    lines = packed_lines(dict(make_envelope(value, salt(value)) for value in ("one", "two")))
    data = stored(lines)
    rows = [data[at : at + 32].hex(" ", -4) for at in range(0, len(data), 32)]
    return fenced("\n".join(["lines", lines.decode(), "file", *rows]), "text")


def json_text(text: str) -> str:
    return canonicalize(text).decode()


def journal_examples() -> dict[str, str]:
    run = three_steps()
    blocks = {}
    for kind in ("action_request", "supervisor_decision", "tool_call", "tool_effect"):
        line = next(x for x in lines_of(run) if x["kind"] == "entry" and x["entry"]["artifact_type"] == kind)
        blocks[kind] = fenced(pretty(line["artifact"]))
        if kind == "tool_call":
            blocks["entry"] = fenced(pretty(line["entry"]))
            covered = {key: value for key, value in line["entry"].items() if key != "entry_digest"}
            blocks["entry-preimage"] = canonical(covered)
        if kind == "tool_effect":
            blocks["effect-meta"] = fenced(pretty(line["artifact"]["meta"]))
    fetch = run.traces[0]
    blocks["capability"] = fenced(pretty(fetch_claims(fetch.artifacts["supervisor_decision"]["minted_capability"])))
    blocks["attempt"] = fenced(pretty(pick(run, "attempt", ordinal=0)["attempt"]))
    blocks["lost"] = fenced(pretty(pick(lost_answer(), "attempt", code="ERR_IN_DOUBT")["attempt"]))
    return blocks


def fetch_claims(token: str) -> Json:
    payload = token.split(".")[1]
    claims: Json = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def value_examples() -> dict[str, str]:
    envelope_salt = salt("example")
    envelope = envelope_salt + canonicalize({"url": "http://127.0.0.1:8080/changes", "method": "GET"})
    said = {"text": "hi", "$secret": "SMTP_PASSWORD"}
    escaped = {"text": "hi", "$$secret": "SMTP_PASSWORD"}
    names = ("release-notes", "example-agent", "019b76da-a800-7000-8000-000000000001")
    plan = three_steps().plan
    outcome = three_steps()
    told = outcome.payloads[outcome.traces[0].artifacts["tool_effect"]["document_hashes"][1]["hash"]]
    run = three_steps()
    args = run.traces[2].artifacts["action_request"]["proposal"]["args"]["$commit"]
    record = erasure(args, run.run_id, ZERO_DIGEST, who="privacy@example.com", reason="request 42", ms=86_400_000)
    return {
        "keys": fenced(key_example(run), "text"),
        "projection": fenced("\n".join(f"{name:<38}{project_uuid7(name)}" for name in names), "text"),
        "tool_names": fenced("\n".join(f"{name:<18}{server:<8}{tool}" for name, server, tool in tool_names()), "text"),
        "envelope": fenced(
            f"salt        {envelope_salt.hex()}\n"
            f"value       {envelope[32:].decode()}\n"
            f"envelope    {envelope.hex()}\n"
            f"commitment  {sha256_hex(envelope)}",
            "text",
        ),
        "escaping": fenced(
            f"a tool returned             {canonicalize(said).decode()}\n"
            f"in the next step's envelope {canonicalize(escaped).decode()}\n"
            f"what that step's skill gets {canonicalize(said).decode()}",
            "text",
        ),
        "plan": fenced(pretty(plan)) + "\n\n" + fenced(f"plan_hash  {plan_hash(plan)}", "text"),
        "outcome": fenced(pretty(msgspec.json.decode(told[32:]))),
        "skill_metadata": fenced(pretty(SKILLS[0]))
        + "\n\n"
        + fenced(
            f"definition_digest  {sha256_hex(canonicalize(without_words(SKILLS[0])))}\n"
            f"in its older form  {sha256_hex(canonicalize(SKILLS[0]))}",
            "text",
        ),
        "erasure": fenced(pretty(record)),
        "archived": fenced(pretty(archived_record(record))),
    }


def tool_names() -> list[tuple[str, str, str]]:
    """Skill ids, each with the server and the tool that stand for it in artifacts and keys."""
    return [
        ("http_call", "local", "http_call"),
        ("mail.send", "mail", "send"),
        ("GetWeather", "local", stand_in("GetWeather")),
        ("admin.tools.list", "admin", stand_in("tools.list")),
    ]


def stand_in(part: str) -> str:
    return "x-" + sha256_hex(part.encode())[:32]


def without_words(skill: Json) -> Json:
    """The declaration of a skill whose schemas have no words of their own."""
    return {key: value for key, value in skill.items() if key not in ("description", "name", "owner", "tags")}


def head_example(run: Run) -> str:
    """How the head of a run's first commit is authenticated."""
    seed = run.key.private_bytes_raw()
    extracted = hmac.digest(bytes(32), seed, "sha256")
    mac_key = hmac.digest(extracted, b"reenact head mac\x01", "sha256")
    text = canonicalize(["reenact.head.v1", STORE_ID, run.run_id, 1, sha256_hex(run.bodies[0])])
    return (
        f"seed     {seed.hex()}\nkey      {mac_key.hex()}\ntext     {text.decode()}\n"
        f"kid      {kid_of(run.key)}\nmac      {hmac.digest(mac_key, text, 'sha256').hex()}"
    )


def key_example(run: Run) -> str:
    """The keys of the first and the last step, and what they are made of."""
    fetch, send = run.traces[0], run.traces[2]
    arguments = hmac_hex(bytes.fromhex(run.salt), canonicalize(fetch.args))
    given = ["caller", *send.tool, send.step["idempotency_key"]]
    own = ["step", run.key_run, fetch.step["step_id"], *fetch.tool, arguments]
    return (
        f"key_secret  {KEY_SECRET.hex()}\n"
        f"salt        {run.salt}\n"
        f"arguments   {canonicalize(fetch.args).decode()}\n"
        f"step        {canonicalize(own).decode()}\n"
        f"its key     {fetch.key}\n"
        f"caller      {canonicalize(given).decode()}\n"
        f"its key     {send.key}"
    )


def run_examples() -> dict[str, str]:
    run, talk = three_steps(), session()
    heads = [msgspec.json.decode(body.split(b"\n", 1)[0]) for body in run.bodies[:3]]
    chain = "\n".join(
        f"{canonicalize(head).decode()}\n    … {body.count(10) - 1} more lines; SHA-256 of the body {sha256_hex(body)}"
        for head, body in zip(heads, run.bodies, strict=False)
    )
    leaves = [trace.leaf for trace in run.traces]
    tree = "\n".join(leaf.decode() for leaf in leaves) + f"\n\nroot           {run.root()}"
    tree += f"\nempty          {tree_root([])}\nattempts_root  {run.attempts_root()}"
    manifest = msgspec.json.decode(bundle_files(refusals(), packed=True)["manifest.json"])
    return {
        "run_chain": fenced(chain, "text"),
        "heads": fenced(head_example(run), "text"),
        "run": fenced(pretty(pick(run, "run"))),
        "session_step": fenced(pretty(talk.assembled["steps"][2])),
        "event": fenced(pretty(pick(talk, "event", type="turn"))),
        "vote": fenced(pretty(pick(talk, "vote"))),
        "checkpoint": fenced(pretty(pick(talk, "checkpoint")["checkpoint"])),
        "run_checkpoint": fenced(pretty(pick(run, "run_checkpoint")["run_checkpoint"])),
        "seal": fenced(pretty(run.seal_record)),
        "tree": fenced(tree, "text"),
        "manifest": fenced(pretty(manifest)),
        "packed": packed_example(),
    }


def steps() -> str:
    text = reenact.verify.__doc__ or ""
    return text[text.index("1. The manifest") :].strip()


def codes() -> str:
    rows = [f"| `{code}` | {aspect} | {meaning} |" for code, (aspect, meaning) in CODES.items()]
    return "\n".join(["| code | breaks | meaning |", "|---|---|---|", *rows])


def filled(page: str, blocks: dict[str, str]) -> str:
    """The page with every block's text put in."""

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if match[2]:
            return f"<!-- {name} -->\n{blocks[match[2]]}\n<!-- /bytes -->"
        return f"<!-- {name} -->\n{steps() if name == 'steps' else codes()}\n<!-- /{name} -->"

    return BLOCK.sub(put, page)


def pages(folder: Path) -> dict[str, bytes]:
    """Every page of the specification that has such blocks, as it must be."""
    blocks = examples()
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    return {path.name: filled(text, blocks).encode() for path, text in texts.items() if BLOCK.search(text)}
